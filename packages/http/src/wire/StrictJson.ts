/**
 * Parses a request body that must be one JSON object, more strictly than `JSON.parse`: bodies that parsers could interpret
 * differently (duplicate keys, invalid UTF-8, numbers out of range) are rejected.
 */

export type JsonProblem = "empty" | "encoding" | "syntax" | "not_an_object" | "duplicate_key" | "too_deep"

export type ParsedJsonObject =
  | { readonly ok: true; readonly value: Record<string, unknown> }
  | { readonly ok: false; readonly problem: JsonProblem }

// Removes one byte order mark at the start; a second one is an ordinary character, and invalid JSON.
const utf8 = new TextDecoder("utf-8", { fatal: true })

/**
 * Accepts valid UTF-8 (one byte order mark allowed) with an object at the top, at most `maxDepth` levels of objects and
 * arrays (the outer object is level 1), no duplicate keys in any spelling, and only finite numbers.
 *
 * `__proto__` and `constructor` become ordinary own properties. Look up fields with `Object.hasOwn`, because an absent
 * field may be inherited. U+0000 and lone surrogates stay in strings; field rules reject them by name.
 *
 * The caller limits the size. If there are several problems, depth takes precedence over syntax.
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
  // JSON.parse keeps the last of equal keys, however they are escaped. So a text with more members than its value has
  // keys contains a duplicate.
  if (kept !== members) return refused("duplicate_key")
  return { ok: true, value: value as Record<string, unknown> }
}

const refused = (problem: JsonProblem): ParsedJsonObject => ({ ok: false, problem })

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a

/**
 * Counts the members of all objects in a JSON text (the colons outside strings); `undefined` if it nests too deeply. One
 * pass without recursion, so depth cannot exhaust the stack. The result for invalid JSON does not matter.
 */
const countMembers = (text: string, maxDepth: number): number | undefined => {
  let members = 0
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === COLON) members++
    // `[` and `{`, and `]` and `}`, differ only in the bit for letter case.
    else if ((code | 0x20) === 0x7b && ++depth > maxDepth) return undefined
    else if ((code | 0x20) === 0x7d) depth--
  }
  return members
}

/** Returns the position of the quote that ends a string. Uses native search, because bodies are mostly strings. */
const endOfString = (text: string, start: number): number => {
  let end = text.indexOf('"', start + 1)
  while (end !== -1) {
    let first = end
    while (text.charCodeAt(first - 1) === BACKSLASH) first--
    // An even number of backslashes escape each other and not the quote.
    if ((end - first) % 2 === 0) return end
    end = text.indexOf('"', end + 1)
  }
  return text.length
}

/** Counts the keys of all objects in a parsed value; NaN if a number became infinite (`1e999`). */
const countKeys = (value: unknown): number => {
  if (typeof value === "number") return Number.isFinite(value) ? 0 : NaN
  if (typeof value !== "object" || value === null) return 0
  let keys = 0
  if (Array.isArray(value)) for (const item of value) keys += countKeys(item)
  else for (const member of Object.values(value)) keys += 1 + countKeys(member)
  return keys
}
