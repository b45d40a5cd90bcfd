/** The names of the options of an interface, all of them: one that is missing here does not compile. */
export type Names<Options> = { readonly [Name in keyof Required<Options>]: true }

/** Throws `TypeError` for an option that does not exist, so that a misspelled one is not ignored. */
export const requireKnown = (place: string, options: object, known: Readonly<Record<string, true>>): void => {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(known, name))
  if (unknown !== undefined)
    throw new TypeError(`unknown option "${unknown}" in ${place}; it takes ${Object.keys(known).join(", ")}`)
}
