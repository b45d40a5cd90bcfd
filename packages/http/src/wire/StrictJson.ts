/**
 * Reads a request body that must be one JSON object, stricter than `JSON.parse`: a body that two parsers could
 * understand differently (duplicate keys, invalid UTF-8, numbers out of range) is refused, not guessed at.
 */

export type JsonProblem = "empty" | "encoding" | "syntax" | "not_an_object" | "duplicate_key" | "too_deep"

export type ParsedJsonObject =
  | { readonly ok: true; readonly value: Record<string, unknown> }
  | { readonly ok: false; readonly problem: JsonProblem }

// Takes off one byte order mark at the start; a second one is an ordinary character and no JSON.
const utf8 = new TextDecoder("utf-8", { fatal: true })

/**
 * Parses valid UTF-8 (one byte order mark allowed) with an object at the top, at most `maxDepth` levels of objects and
 * arrays (the outer object is level 1), no key twice in one object however it is spelled, and finite numbers only.
 *
 * `__proto__` and `constructor` become ordinary own properties. Look fields up with `Object.hasOwn`: a field that is
 * not there may still be inherited. U+0000 and lone surrogates stay in strings for a field rule to refuse by name.
 *
 * Size is the caller's to limit. Where several problems meet, depth wins over syntax.
 */
export const parseJsonObject = (bytes: Uint8Array, options: { readonly maxDepth: number }): ParsedJsonObject => {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    return refused("encoding")
  }
  const members = countMembers(text, options.maxDepth)
  if (members === undefined) return refused("too_deep")

  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return refused(/^[ \t\r\n]*$/.test(text) ? "empty" : "syntax")
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return refused("not_an_object")

  const kept = countKeys(value)
  if (Number.isNaN(kept)) return refused("syntax")
  // JSON.parse keeps the last of equal keys, whatever escapes they are spelled with: a text with more members than
  // its value has keys names some key twice.
  if (kept !== members) return refused("duplicate_key")
  return { ok: true, value: value as Record<string, unknown> }
}

const refused = (problem: JsonProblem): ParsedJsonObject => ({ ok: false, problem })

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a

/**
 * Members of all objects in a JSON text (the colons outside strings), or `undefined` when it nests too deeply. One pass
 * without recursion, so depth cannot exhaust the stack. What it says about a text that is no JSON does not matter.
 */
const countMembers = (text: string, maxDepth: number): number | undefined => {
  let members = 0
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === COLON) members++
    // `[` and `{`, `]` and `}` differ in one bit, the one of letter case.
    else if ((code | 0x20) === 0x7b && ++depth > maxDepth) return undefined
    else if ((code | 0x20) === 0x7d) depth--
  }
  return members
}

/** Position of the quote that ends a string: the next one not escaped. Native search, since most of a body is strings. */
const endOfString = (text: string, start: number): number => {
  let end = text.indexOf('"', start + 1)
  while (end !== -1) {
    let first = end
    while (text.charCodeAt(first - 1) === BACKSLASH) first--
    // An even number of backslashes escape each other and leave the quote alone.
    if ((end - first) % 2 === 0) return end
    end = text.indexOf('"', end + 1)
  }
  return text.length
}

/** Keys of all objects in a parsed value; NaN when it holds a number that became infinite (`1e999`). */
const countKeys = (value: unknown): number => {
  if (typeof value === "number") return Number.isFinite(value) ? 0 : NaN
  if (typeof value !== "object" || value === null) return 0
  let keys = 0
  if (Array.isArray(value)) for (const item of value) keys += countKeys(item)
  else for (const member of Object.values(value)) keys += 1 + countKeys(member)
  return keys
}
