import { canonicalJson, type JsonObject } from "../domain/index.ts"
import { isPlainObject } from "../domain/realms.ts"
import { readSafely } from "../domain/realms.ts"

/** Returns a value as JSON text; `undefined` if JSON cannot represent it. */
export const asJson = (value: unknown): string | undefined => {
  try {
    return canonicalJson(value)
  } catch {
    return undefined
  }
}

/** Returns where and why a value is not JSON: `.items[3].when is a Date`; `undefined` if it is. */
export const jsonProblem = (value: unknown): string | undefined => {
  if (asJson(value) !== undefined) return undefined
  const found = readSafely(() => firstProblem(value, "", new Set()))
  return found === undefined ? " cannot be read" : `${found.path} is ${found.what}`
}

interface JsonProblem {
  readonly path: string
  readonly what: string
}

const firstProblem = (value: unknown, path: string, above: ReadonlySet<unknown>): JsonProblem | undefined => {
  if (value === null || typeof value === "boolean" || typeof value === "string") return undefined
  if (typeof value === "number") return Number.isFinite(value) ? undefined : { path, what: String(value) }
  if (typeof value !== "object") return { path, what: value === undefined ? "undefined" : `a ${typeof value}` }
  if (above.has(value)) return { path, what: "part of itself" }
  const inside = new Set([...above, value])
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const found = firstProblem(value[index], `${path}[${index}]`, inside)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (!isPlainObject(value)) return { path, what: classOf(value) }
  for (const [name, field] of Object.entries(value)) {
    // As in JSON.stringify, a field that is undefined is absent.
    const found = field === undefined ? undefined : firstProblem(field, `${path}${fieldPath(name)}`, inside)
    if (found !== undefined) return found
  }
  return undefined
}

const fieldPath = (name: string): string =>
  /^[A-Za-z_$][\w$]{0,63}$/.test(name) ? `.${name}` : `[${JSON.stringify(name.slice(0, 64))}]`

const classOf = (value: object): string => {
  const { name } = (Object.getPrototypeOf(value) as { readonly constructor: { readonly name: string } }).constructor
  return `${/^[AEIOU]/.test(name) ? "an" : "a"} ${name}`
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
