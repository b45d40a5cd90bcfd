/** The place of an error in a text, from 1, and whether it is its end. */
export interface TextPlace {
  readonly line: number
  /** In Unicode code points. */
  readonly column: number
  readonly isEnd: boolean
}

const SPACE = /[ \t\r\n]*/y
// Without the closing quote, so that the place of an invalid character is where it ends.
const CHARACTERS = /(?:[^"\\\p{Cc}]|[\u007f-\u009f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/uy
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const WORD = /true|false|null/y

/** Thrown where the text stops being JSON. */
class Invalid extends Error {
  readonly at: number

  constructor(at: number) {
    super("invalid JSON")
    this.at = at
  }
}

/**
 * Finds where a text that `JSON.parse` refuses stops being JSON; `undefined` if it does not. The messages of `JSON.parse` quote the text,
 * and few have a place. The caller limits the depth of the text.
 */
export const locateSyntaxError = (text: string): TextPlace | undefined => {
  try {
    const end = space(text, value(text, space(text, 0)))
    return end === text.length ? undefined : placeAt(text, end)
  } catch (error) {
    if (error instanceof Invalid) return placeAt(text, error.at)
    throw error
  }
}

const match = (pattern: RegExp, text: string, at: number): number => {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}

const space = (text: string, at: number): number => match(SPACE, text, at)

const expectCharacter = (text: string, at: number, character: string): number => {
  if (text[at] !== character) throw new Invalid(at)
  return at + 1
}

const string = (text: string, at: number): number =>
  expectCharacter(text, match(CHARACTERS, text, expectCharacter(text, at, '"')), '"')

const value = (text: string, at: number): number => {
  const first = text[at]
  if (first === '"') return string(text, at)
  if (first === "{") return entries(text, at + 1, "}", (start) => value(text, space(text, colon(text, start))))
  if (first === "[") return entries(text, at + 1, "]", (start) => value(text, start))
  const end = match(first === "-" || (first !== undefined && first >= "0" && first <= "9") ? NUMBER : WORD, text, at)
  if (end === at) throw new Invalid(at)
  return end
}

const colon = (text: string, at: number): number => expectCharacter(text, space(text, string(text, at)), ":")

const entries = (text: string, from: number, close: string, entry: (at: number) => number): number => {
  let at = space(text, from)
  if (text[at] === close) return at + 1
  for (;;) {
    at = space(text, entry(at))
    if (text[at] === close) return at + 1
    at = space(text, expectCharacter(text, at, ","))
  }
}

const placeAt = (text: string, at: number): TextPlace => {
  const lines = text.slice(0, at).split(/\r\n|\r|\n/)
  return { line: lines.length, column: Array.from(lines.at(-1) ?? "").length + 1, isEnd: at === text.length }
}
