import { canonicalJson, type JsonObject } from "../domain/index.ts"

/** Returns a value as JSON text; `undefined` if JSON cannot represent it. */
export const asJson = (value: unknown): string | undefined => {
  try {
    return canonicalJson(value)
  } catch {
    return undefined
  }
}

/** Returns a JSON copy of an object; `undefined` if it is not an object or JSON cannot represent it. */
export const asJsonObject = (value: unknown): JsonObject | undefined => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined
  const json = asJson(value)
  return json === undefined ? undefined : (JSON.parse(json) as JsonObject)
}
