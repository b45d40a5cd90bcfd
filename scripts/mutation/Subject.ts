import type { Place, Stores } from "@kiln/conformance"
import { applied, type SqlMutant } from "./sqlMutants.ts"

/** A store whose statements can be replaced. */
export interface Subject {
  readonly place: Place<Stores>
  /** The texts that may be mutated, by name: of functions of the database, and of statements that ran so far. */
  readonly texts: () => ReadonlyMap<string, string>
  /** The texts that were reached since the last call. */
  readonly reached: () => ReadonlySet<string>
  /** Makes these changes, and no others. Returns false if the database does not take them. */
  readonly plant: (planted: ReadonlyArray<Planted>) => Promise<boolean>
  /** Whether the database has refused what was planted since. */
  readonly isInvalid: () => boolean
}

export interface Planted {
  readonly name: string
  readonly text: string
  readonly change: SqlMutant
}

/** The texts that are planted, by their names. */
export const plantedTexts = (planted: ReadonlyArray<Planted>): ReadonlyMap<string, { text: string; by: string }> => {
  const texts = new Map<string, { text: string; by: string }>()
  // From the end, so that places stay.
  for (const { change, name, text } of planted.toSorted((a, b) => b.change.start - a.change.start))
    texts.set(name, { text, by: applied(texts.get(name)?.by ?? text, change) })
  return texts
}
