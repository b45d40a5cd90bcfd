import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type Meter, uncoveredMeters } from "../domain/Billing.ts"
import { nearestName } from "../domain/givenValues.ts"
import type { PriceSnapshot } from "../domain/index.ts"
import { builtInPorts, type ProviderPort } from "../providers/index.ts"
import type { JobKind } from "./JobKind.ts"

/**
 * Returns the provider ports of an installation: the built-in ones and those its kinds declare. Throws `TypeError` if two ports
 * have the same name.
 */
export const portsOf = (kinds: ReadonlyArray<JobKind>): ReadonlyArray<ProviderPort> => {
  const ports = new Set<ProviderPort>([...builtInPorts, ...kinds.flatMap((kind) => kind.ports)])
  const names = [...ports].map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new TypeError(`two provider ports are named "${twice}"; rename one of them`)
  return [...ports]
}

/** Returns the names of all switches of these kinds, each once. */
export const switchesOf = (kinds: ReadonlyArray<Pick<JobKind, "gate">>): ReadonlyArray<string> => [
  ...new Set(kinds.flatMap(({ gate }) => gate.switches)),
]

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

/** The value of `JobKinds` if a program provides one. Has its key but no default, because the default needs Effect Schema. */
export class InstalledKinds extends Context.Service<InstalledKinds, ReadonlyArray<JobKind>>()(
  "@kiln/core/kinds/JobKinds",
) {}

/**
 * The job kinds of this installation, for the engine and the worker: `JobKinds`, but what the built-in kinds need is loaded only if
 * no kinds were provided.
 */
export const installedKinds: Effect.Effect<ReadonlyArray<JobKind>> = Effect.flatMap(
  Effect.serviceOption(InstalledKinds),
  Option.match({
    onSome: Effect.succeed,
    onNone: () => Effect.promise(async () => (await import("./builtInKinds.ts")).builtInKinds()),
  }),
)
