import { requireOptions } from "../domain/index.ts"

/**
 * Returns the options of a call, `{}` by default. `ids.map(engine.get)` passes an index and the array, which are ignored. Throws
 * `TypeError` for anything else that is not an object with these options.
 */
export const callOptions = <Options extends object>(
  place: string,
  names: Readonly<Record<string, true>>,
  given: Options | undefined,
  rest: ReadonlyArray<unknown>,
): Partial<Options> => {
  if (given === undefined || (typeof given === "number" && Array.isArray(rest[0]))) return {}
  requireOptions(place, given, names)
  return given
}
