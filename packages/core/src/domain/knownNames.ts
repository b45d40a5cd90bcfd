import { likelyName } from "./nearestName.ts"
import { givenField, isPlainObject } from "./realms.ts"

type KeysOf<Options> = Options extends unknown ? keyof Options : never

/** The names of all options of an interface, or of a union of them. An option without an entry does not compile. */
export type OptionNames<Options> = { readonly [Name in KeysOf<Options>]-?: true }

/**
 * Returns the error message for an unknown name: `unknown option "workers" in createEngine(); did you mean "worker"?`. If no name
 * is similar, it lists all of them.
 */
export const unknownName = (what: string, written: string, known: ReadonlyArray<string>): string => {
  const likely = likelyName(written.slice(0, 100), known)
  if (likely !== undefined) return `unknown ${what}; did you mean "${likely}"?`
  return known.length === 0 ? `unknown ${what}; none is defined` : `unknown ${what}; known: ${known.join(", ")}`
}

const shownType = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "an array" : `a value of type ${typeof value}`

/**
 * Throws `TypeError` unless this is an object, and for an unknown option in an object literal. A class instance may have other
 * fields.
 */
export const requireOptions = (place: string, given: unknown, names: Readonly<Record<string, true>>): void => {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new TypeError(`${place} expects its options as an object, not ${shownType(given)}`)
  if (!isPlainObject(given)) return
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(names, name))
  if (unknown !== undefined)
    throw new TypeError(unknownName(`option "${unknown}" in ${place}`, unknown, Object.keys(names)))
}

/**
 * Throws `TypeError` for an object that has none of these names, unless it is an empty object literal, and for a name in an
 * object literal that looks like a misspelling of a missing one. Other fields and methods, such as `close`, are accepted.
 */
export const requireProviderNames = (place: string, given: unknown, names: ReadonlyArray<string>): void => {
  if ((typeof given !== "object" && typeof given !== "function") || given === null || Array.isArray(given))
    throw new TypeError(`${place} must be an object, not ${shownType(given)}`)
  const isEmpty = !names.some((name) => givenField(given, name) !== undefined)
  if (!isPlainObject(given)) {
    if (isEmpty) throw new TypeError(`${place} must have at least one of ${names.join(", ")}`)
    return
  }
  const unknown = Object.keys(given).find((name) => {
    if (names.includes(name)) return false
    const likely = likelyName(name.slice(0, 100), names)
    return isEmpty || (likely !== undefined && givenField(given, likely) === undefined)
  })
  if (unknown !== undefined) throw new TypeError(unknownName(`provider "${unknown}" in ${place}`, unknown, names))
}

/** Throws `TypeError` unless the value is one of these names. */
export const requireOneOf = (what: string, value: unknown, names: ReadonlyArray<string>): void => {
  if (typeof value !== "string") throw new TypeError(`${what} must be one of ${names.join(", ")}`)
  if (!names.includes(value)) throw new TypeError(unknownName(`${what} "${value.slice(0, 100)}"`, value, names))
}

/** The range of a number. Both bounds are inclusive; without `most`, `Infinity` is allowed. */
export interface NumberRule {
  readonly least: number
  readonly most?: number
  readonly whole?: boolean
}

/** Throws `TypeError` unless the value is a number within the rule. NaN and strings are always rejected. */
export const requireNumber = (name: string, value: unknown, rule: NumberRule): void => {
  const { least, most = Number.POSITIVE_INFINITY, whole = false } = rule
  if (typeof value === "number" && value >= least && value <= most && (!whole || Number.isInteger(value))) return
  const shown = typeof value === "number" ? `, not ${value}` : ""
  throw new TypeError(`${name} must be ${described(least, most, whole)}${shown}`)
}

const described = (least: number, most: number, whole: boolean): string => {
  const kind = whole ? "integer" : "number"
  const article = whole ? "an" : "a"
  if (most < Number.MAX_SAFE_INTEGER) return `${article} ${kind} between ${least} and ${most}`
  if (least === 0) return `a non-negative ${kind}`
  return whole && least === 1 ? "a positive integer" : `${article} ${kind} of at least ${least}`
}

/** Throws `TypeError` unless the value is an `AbortSignal` or `undefined`. Signals of other libraries have the same methods. */
export const requireSignal = (name: string, value: unknown): void => {
  if (value === undefined) return
  if (typeof value === "object" && value !== null && typeof givenField(value, "throwIfAborted") === "function") return
  throw new TypeError(`${name} must be an AbortSignal`)
}

/** Throws `TypeError` unless the value is `true`, `false` or `undefined`. */
export const requireFlag = (name: string, value: unknown): void => {
  if (value !== undefined && typeof value !== "boolean") throw new TypeError(`${name} must be true or false`)
}
