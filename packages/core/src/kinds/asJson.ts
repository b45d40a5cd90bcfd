import { canonicalJson, type JsonObject } from "../domain/index.ts"

/** A value as JSON; `undefined` where JSON cannot carry it. */
export const asJson = (value: unknown): string | undefined => {
  try {
    return canonicalJson(value)
  } catch {
    return undefined
  }
}

/** A copy of what JSON carries of an object; `undefined` where it is none, or holds what JSON cannot carry. */
export const asJsonObject = (value: unknown): JsonObject | undefined => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined
  const json = asJson(value)
  return json === undefined ? undefined : (JSON.parse(json) as JsonObject)
}
