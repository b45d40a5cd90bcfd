import type { PriceSnapshot } from "../domain/index.ts"
import { nearestName } from "../domain/nearestName.ts"
import { type Meter, uncoveredMeters } from "../domain/Billing.ts"
import type { JobKind } from "./JobKind.ts"

type Priced = Pick<PriceSnapshot, "name" | "unitAmounts">
type PricedKind = Pick<JobKind, "name" | "gate">

const didYouMean = (written: string, names: ReadonlyArray<string>): string => {
  const nearest = nearestName(written, names)
  return nearest === undefined ? "" : `; did you mean "${nearest}"?`
}

const usersOf = (kinds: ReadonlyArray<PricedKind>, name: string) => kinds.filter(({ gate }) => gate.price === name)

/** Returns a message if no kind uses the price or one of its meters, with the nearest known name; otherwise `undefined`. */
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

/**
 * Returns the kinds whose live jobs would be rejected under a price, with the meters it does not name. A free meter must be listed
 * with "0".
 */
export const closedKinds = (
  kinds: ReadonlyArray<PricedKind>,
  price: Priced,
): ReadonlyArray<{ readonly kind: string; readonly lacking: ReadonlyArray<Meter> }> =>
  usersOf(kinds, price.name)
    .map(({ gate, name }) => ({ kind: name, lacking: uncoveredMeters(price, gate.meters) }))
    .filter(({ lacking }) => lacking.length > 0)
