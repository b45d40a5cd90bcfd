import type { Json, JsonObject, KeyLimits, LineItem, SharedBucket, WorkerScope } from "@kiln/core/domain"
import type { ProviderStanding } from "@kiln/core/ports"

/*
 * For stores that keep parts of their records as JSON text. The text was written by a store of the same type, so only its outline is checked. A record with damaged text is unreadable; the others are not affected.
 */

/** A row with damaged JSON. Only that record is unreadable. */
export class UndecodableRow extends Error {
  override readonly name = "UndecodableRow"
}

/** Parses a JSON object. Messages name the record, never its content. */
export const decodeObject = (text: string, record: string): JsonObject => {
  const value = decodeJson(text, record)
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new UndecodableRow(`${record} is not an object`)
  return value as JsonObject
}

/** Parses an object of strings: the amounts of a price, by meter. */
export const decodeAmounts = (text: string, record: string): Readonly<Record<string, string>> => {
  const value = decodeObject(text, record)
  if (!Object.values(value).every((part) => typeof part === "string"))
    throw new UndecodableRow(`${record} is not an object of strings`)
  return value as Readonly<Record<string, string>>
}

/** Parses a JSON list of strings. */
export const decodeStrings = (text: string, record: string): ReadonlyArray<string> => {
  const value = decodeJson(text, record)
  if (!Array.isArray(value) || !value.every((part) => typeof part === "string"))
    throw new UndecodableRow(`${record} is not a list of strings`)
  return value
}

/** Parses a JSON list of objects. */
const decodeObjects = (text: string, record: string): ReadonlyArray<JsonObject> => {
  const value = decodeJson(text, record)
  const isObject = (part: Json): part is JsonObject => typeof part === "object" && part !== null && !Array.isArray(part)
  if (!Array.isArray(value) || !value.every(isObject)) throw new UndecodableRow(`${record} is not a list of objects`)
  return value
}

/** Parses the line items of a charge. */
export const decodeLineItems = (text: string, record: string): ReadonlyArray<LineItem> =>
  decodeObjects(text, record) as ReadonlyArray<JsonObject & LineItem>

/** Parses the state of a worker's providers. */
export const decodeStandings = (text: string, record: string): ReadonlyArray<ProviderStanding> =>
  decodeObjects(text, record) as ReadonlyArray<JsonObject & ProviderStanding>

/** Formats the scope of a worker for `decodeScope`. */
export const encodeScope = (scope: WorkerScope | undefined): string | null =>
  scope === undefined ? null : JSON.stringify(scope)

/** Parses the scope of a worker, as a field of its publication. `null` means that it did not tell. */
export const decodeScope = (text: string | null, record: string): { readonly scope?: WorkerScope } =>
  text === null ? {} : { scope: decodeObject(text, record) as JsonObject & WorkerScope }

/** Parses the limits of a key. `null` means that it has none of its own. */
export const decodeLimits = (text: string | null, record: string): KeyLimits =>
  text === null ? {} : decodeObject(text, record)

/** Formats the limits of a key for `decodeLimits`. */
export const encodeLimits = (limits: KeyLimits): string | null =>
  Object.keys(limits).length === 0 ? null : JSON.stringify(limits)

/** Parses a bucket that processes share. */
export const decodeBucket = (text: string, record: string): SharedBucket => {
  const value = decodeObject(text, record) as JsonObject & Partial<SharedBucket>
  const { at, level, portions } = value
  if (!Number.isSafeInteger(at) || !Number.isSafeInteger(level) || typeof portions !== "object")
    throw new UndecodableRow(`${record} is not a bucket`)
  return value as JsonObject & SharedBucket
}

/** Parses any JSON value. */
export const decodeJson = (text: string, record: string): Json => {
  try {
    return JSON.parse(text) as Json
  } catch {
    throw new UndecodableRow(`${record} is not JSON`)
  }
}

/** Returns the kept fields of a job in a list. A damaged record is listed without them, because an operator must find it. */
export const listedMetadata = (kept: string): JsonObject => {
  try {
    return decodeObject(kept, "the kept fields of a job")
  } catch (error) {
    if (error instanceof UndecodableRow) return {}
    throw error
  }
}
