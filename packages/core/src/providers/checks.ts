import { isBytes, isStorableText } from "../domain/index.ts"
import { resultInvalid } from "./ProviderError.ts"

/*
 * Parts that checks of answers share. A provider is someone else's code: its types are a claim, so every answer is read as
 * an unknown value, before anything of it is stored or charged.
 */

/** A generated file, whole in memory: speech and images are small. */
export interface GeneratedFile {
  readonly data: Uint8Array
  /** For example `audio/mpeg`. */
  readonly mediaType: string
}

/** UTF-16 units. Fifteen minutes of speech have about 20,000. */
const maxTextLength = 1_000_000

/** Returns a field of an object, and `undefined` for anything else. */
export const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

/** Requires a text that every store can keep, of at most 1,000,000 characters. Throws `result_invalid`. */
export const checkText = (text: unknown): string => {
  if (isStorableText(text) && text.length <= maxTextLength) return text
  throw resultInvalid("expected at most 1,000,000 characters of text without U+0000 or unpaired surrogates")
}

/** Returns the bytes of a file that is not empty and has at most `maxBytes`. Throws `result_invalid`. */
export const checkBytes = (file: unknown, maxBytes: number): Uint8Array => {
  const data = fieldOf(file, "data")
  if (!isBytes(data)) throw resultInvalid("expected a file as bytes")
  if (data.length === 0) throw resultInvalid("the file is empty")
  if (data.length > maxBytes) throw resultInvalid(`the file has ${data.length} bytes; the limit is ${maxBytes}`)
  return data
}
