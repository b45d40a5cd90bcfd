import { canonicalJson, type JsonObject } from "../domain/index.ts"
import { isArrayBuffer, isDate, isPlainObject, readSafely } from "../domain/realms.ts"

/** Returns a value as JSON text; `undefined` if JSON cannot represent it. */
export const asJson = (value: unknown): string | undefined => {
  try {
    return canonicalJson(value)
  } catch {
    return undefined
  }
}

/**
 * Returns which part of a value is not JSON, and the remedy, or `undefined` if all of it is JSON. `place` names the value:
 * `request.user.born: Date is not JSON; use text (toISOString()), in schemas too`.
 */
export const jsonProblem = (place: string, value: unknown): string | undefined => {
  if (asJson(value) !== undefined) return undefined
  const found = readSafely(() => firstProblem(value, place, new Set()))
  return found === undefined ? `${place} cannot be read` : `${found.path}: ${found.what}`
}

interface JsonProblem {
  readonly path: string
  readonly what: string
}

const firstProblem = (value: unknown, path: string, above: ReadonlySet<unknown>): JsonProblem | undefined => {
  const what = primitiveProblem(value)
  if (what !== undefined) return { path, what }
  if (typeof value !== "object" || value === null) return undefined
  if (above.has(value)) return { path, what: "the value contains itself, which JSON cannot represent; use ids" }
  const inside = new Set([...above, value])
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const item: unknown = value[index]
      const found =
        item === undefined
          ? { path: `${path}[${index}]`, what: "undefined is not JSON in a list; use null" }
          : firstProblem(item, `${path}[${index}]`, inside)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (!isPlainObject(value)) return { path, what: instanceProblem(value) }
  for (const [name, field] of Object.entries(value)) {
    // As in JSON.stringify, a field that is undefined is absent.
    const found = field === undefined ? undefined : firstProblem(field, `${path}${fieldPath(name)}`, inside)
    if (found !== undefined) return found
  }
  return undefined
}

const remedies: { readonly [Type in string]?: string } = {
  bigint: "use text (String()), in schemas too",
  symbol: "leave it out",
  function: "use an object of plain fields",
  undefined: "use null",
}

const primitiveProblem = (value: unknown): string | undefined => {
  if (typeof value === "number")
    return Number.isFinite(value) ? undefined : `${String(value)} is not JSON; use null or text`
  const remedy = remedies[typeof value]
  return remedy && `${typeof value} is not JSON; ${remedy}`
}

// `JsonTypes.ts` says the same at compile time.
const instanceProblem = (value: object): string => {
  if (isDate(value)) return "Date is not JSON; use text (toISOString()), in schemas too"
  if (value instanceof Map) return "Map is not JSON; use an object (Object.fromEntries()), in schemas too"
  if (value instanceof Set) return "Set is not JSON; use a list (Array.from()), in schemas too"
  if (typeof (value as { readonly then?: unknown }).then === "function") return "Promise is not JSON; await it"
  if (ArrayBuffer.isView(value) || isArrayBuffer(value))
    return "bytes are not JSON; use text (base64), or a file written after the steps"
  const { name } = (Object.getPrototypeOf(value) as { readonly constructor: { readonly name: string } }).constructor
  const remedy = "toJSON" in value ? "use its toJSON()" : "use an object of plain fields, such as { ...value }"
  return `${name} is a class, and its instance is not JSON; ${remedy}`
}

/** Returns a field in a path: `.name`, or `["the name"]`. */
export const fieldPath = (name: string): string =>
  /^[A-Za-z_$][\w$]{0,63}$/.test(name) ? `.${name}` : `[${JSON.stringify(name.slice(0, 64))}]`

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
