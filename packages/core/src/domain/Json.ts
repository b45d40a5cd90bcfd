import { isPlainObject } from "./givenValues.ts"

/** A value that survives a round trip through JSON. Requests, checkpoints and outputs consist of such values. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject
export interface JsonObject {
  readonly [key: string]: Json
}

/**
 * Returns one text for all spellings of a JSON value, for fingerprints: two requests are equal exactly if their canonical texts
 * are. Keys are sorted by UTF-16 code units, numbers are written by value (`1.0` is `1`, `-0` is `0`), strings are kept code unit
 * by code unit (no Unicode normalization, lone surrogates escaped, so the UTF-8 bytes of the text tell values apart as well). The
 * text is itself JSON, which is why distinct values cannot collide.
 *
 * Members that are `undefined` count as absent, as in `JSON.stringify`.
 *
 * @throws TypeError for anything JSON cannot represent: a non-finite number, a bigint, a class instance, a hole in an array.
 */
export const canonicalJson = (value: unknown): string => {
  if (value === null || typeof value === "boolean" || typeof value === "string") return JSON.stringify(value)
  // Not JSON.stringify: it would write a non-finite number as null. `-0` becomes "0" here too.
  if (typeof value === "number" && Number.isFinite(value)) return String(value)
  // Array.from, because map would skip holes.
  if (Array.isArray(value)) return `[${Array.from(value, canonicalJson).join(",")}]`
  if (isPlainObject(value)) return `{${members(value)}}`
  throw new TypeError("expected a JSON value")
}

const members = (object: Readonly<Record<string, unknown>>): string => {
  let text = ""
  for (const key of Object.keys(object).sort()) {
    const value = object[key]
    if (value !== undefined) text += `${text === "" ? "" : ","}${JSON.stringify(key)}:${canonicalJson(value)}`
  }
  return text
}

/**
 * Returns whether every store keeps this text unchanged: Postgres refuses U+0000, and SQLite replaces unpaired surrogates, so two
 * different names could become equal.
 */
export const isStorableText = (text: unknown): text is string =>
  typeof text === "string" && !text.includes("\u0000") && text.isWellFormed()
