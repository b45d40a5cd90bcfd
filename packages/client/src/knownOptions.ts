/** The names of all options of an interface. An option without an entry does not compile. */
export type Names<Options> = { readonly [Name in keyof Required<Options>]: true }

/** Returns whether an object is a literal or a spread, including one of another realm, and not a class instance. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (typeof prototype !== "object" || prototype === null || prototype === Object.prototype) return true
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf")
}

/** Throws `TypeError` for an unknown option, so that a misspelled one is not ignored. A class instance may have other fields. */
export const requireKnown = (place: string, options: object, known: Readonly<Record<string, true>>): void => {
  if (typeof options === "object" && options !== null && !isPlain(options)) return
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(known, name))
  if (unknown !== undefined)
    throw new TypeError(`unknown option "${unknown}" in ${place}; known: ${Object.keys(known).join(", ")}`)
}
