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
