// Values that a program gives: their types, and the names in them.

// Type checks that work across realms. Under jest, in a `vm` context or a frame, objects of the platform have different
// prototypes than those of the program, so `instanceof` and comparisons with `Object.prototype` fail for all of them.

const tagOf = (value: unknown): string => Object.prototype.toString.call(value)

/** Returns whether a value is a plain object, such as a literal or a result of `JSON.parse`, not a class instance or an array. */
export const isPlainObject = (value: unknown): value is Readonly<Record<string, unknown>> => {
  if (typeof value !== "object" || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (typeof prototype !== "object" || prototype === null || prototype === Object.prototype) return true
  // `Object.prototype` of another realm has no prototype and has an own property that no other prototype has.
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf")
}

/** Returns the value of a record under a name that anybody may have chosen, such as `constructor`; `undefined` without one. */
export const valueOf = <Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined =>
  Object.hasOwn(record, name) ? record[name] : undefined

/**
 * Returns a field of an object from outside, which may be a class instance with methods; `undefined` for what every object inherits,
 * such as `constructor`.
 */
export const givenField = (object: object, name: string): unknown =>
  Object.hasOwn(object, name) || !(name in Object.prototype)
    ? (object as Readonly<Record<string, unknown>>)[name]
    : undefined

/** Returns what a function reads from a foreign value; `undefined` if a getter or a proxy throws. */
export const readSafely = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** Returns whether a value is an error, a `DOMException` included. False for a value that cannot be read, such as a revoked proxy. */
export const isError = (value: unknown): value is Error =>
  readSafely(
    () => value instanceof Error || tagOf(value) === "[object Error]" || tagOf(value) === "[object DOMException]",
  ) ?? false

/** Returns whether a value is one of kiln's errors, including one created by another copy of this module. */
export const isTaggedError = <E extends Error & { readonly _tag: string }>(
  value: unknown,
  ...tags: ReadonlyArray<E["_tag"]>
): value is E =>
  isError(value) && (readSafely(() => "_tag" in value && tags.some((tag) => value._tag === tag)) ?? false)

/** Returns whether a value is a `Uint8Array`, a `Buffer` included. */
export const isBytes = (value: unknown): value is Uint8Array =>
  ArrayBuffer.isView(value) && tagOf(value) === "[object Uint8Array]"

/** Returns whether a value is an `ArrayBuffer`. */
export const isArrayBuffer = (value: unknown): value is ArrayBuffer => tagOf(value) === "[object ArrayBuffer]"

/** Returns whether a value is a `Blob` or a `File`, of the platform or a library. */
export const isBlob = (value: unknown): value is Blob =>
  tagOf(value) === "[object Blob]" || tagOf(value) === "[object File]"

/** Returns whether a value is a `Date`. */
export const isDate = (value: unknown): value is Date => tagOf(value) === "[object Date]"

/** Returns the Levenshtein distance of two names. */
const distance = (left: string, right: string): number => {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (const [at, character] of [...left].entries()) {
    const next = [at + 1]
    for (const [index, other] of [...right].entries())
      next.push(
        Math.min((row[index] ?? 0) + (character === other ? 0 : 1), (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1),
      )
    row = next
  }
  return row.at(-1) ?? 0
}

const nearest = (written: string, names: ReadonlyArray<string>) =>
  names
    .map((name) => ({ name, apart: distance(written.toLowerCase(), name.toLowerCase()) }))
    .sort((left, right) => left.apart - right.apart)
    .at(0)

/** Returns the name most like a mistyped one. */
export const nearestName = (written: string, names: ReadonlyArray<string>): string | undefined =>
  nearest(written, names)?.name

/** Returns the name that a mistyped one probably means; `undefined` if more than half of its characters differ. */
export const likelyName = (written: string, names: ReadonlyArray<string>): string | undefined => {
  const found = nearest(written, names)
  if (found === undefined) return undefined
  const longest = Math.max(written.length, found.name.length)
  return found.apart <= Math.max(2, longest / 2) ? found.name : undefined
}

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
