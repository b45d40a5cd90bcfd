import { type Meter, nearestName, type PriceSnapshot, uncoveredMeters } from "../domain/index.ts"
import type { JobKind } from "./JobKind.ts"

type Priced = Pick<PriceSnapshot, "name" | "unitAmounts">
type PricedKind = Pick<JobKind, "name" | "gate">

const didYouMean = (written: string, names: ReadonlyArray<string>): string => {
  const nearest = nearestName(written, names)
  return nearest === undefined ? "" : `; did you mean "${nearest}"?`
}

const usersOf = (kinds: ReadonlyArray<PricedKind>, name: string) => kinds.filter(({ gate }) => gate.price === name)

/** Returns what a price names that no kind uses: itself or a meter, with the nearest known name; `undefined` if nothing. */
export const unusedProblem = (kinds: ReadonlyArray<PricedKind>, { name, unitAmounts }: Priced): string | undefined => {
  const users = usersOf(kinds, name)
  if (users.length === 0) {
    const names = kinds.flatMap(({ gate }) => gate.price ?? [])
    return `no job kind uses the price "${name}"${didYouMean(name, names)}`
  }
  const known = users.flatMap(({ gate }) => gate.meters)
  const unknown = Object.keys(unitAmounts).find((meter) => !known.includes(meter))
  return unknown && `no job kind with the price "${name}" has the meter "${unknown}"${didYouMean(unknown, known)}`
}

/** Kinds whose live jobs a price refuses, with their meters it does not name. A meter that is free must be named with "0". */
export const closedKinds = (
  kinds: ReadonlyArray<PricedKind>,
  price: Priced,
): ReadonlyArray<{ readonly kind: string; readonly lacking: ReadonlyArray<Meter> }> =>
  usersOf(kinds, price.name)
    .map(({ gate, name }) => ({ kind: name, lacking: uncoveredMeters(price, gate.meters) }))
    .filter(({ lacking }) => lacking.length > 0)
