import { canonicalJson, type JsonObject } from "../domain/index.ts"

/** Returns a value as JSON text; `undefined` if JSON cannot represent it. */
export const asJson = (value: unknown): string | undefined => {
  try {
    return canonicalJson(value)
  } catch {
    return undefined
  }
}

/** A JSON copy of an object, with its canonical text. */
export interface JsonCopy {
  readonly stored: JsonObject
  readonly canonical: string
}

/** Returns a JSON copy of an object; `undefined` if it is not an object or JSON cannot represent it. */
export const asJsonObject = (value: unknown): JsonCopy | undefined => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined
  const canonical = asJson(value)
  return canonical === undefined ? undefined : { stored: JSON.parse(canonical) as JsonObject, canonical }
}
