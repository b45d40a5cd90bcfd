import { Effect } from "effect"
import type { JobMode, StoreUnavailable } from "../domain/index.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import { Providers, type ProviderSet, type Runnable } from "../ports/index.ts"
import { GateWatch } from "./GateWatch.ts"

const serves = (providers: ProviderSet, kind: JobKind): boolean =>
  kind.providers.every((name) => providers[name] !== undefined)

/** The kinds this process can serve live, whether or not they may run now. */
export const liveKinds = Effect.gen(function* () {
  const { live } = yield* Providers
  return (yield* JobKinds).filter((kind) => serves(live, kind)).map((kind) => kind.name)
})

/** One for each version whose requests the kind can run. */
const versionsIn = (mode: JobMode, { name, readsFrom, version }: JobKind): ReadonlyArray<Runnable> =>
  Array.from({ length: version - readsFrom + 1 }, (_, n) => ({ kind: name, kindVersion: readsFrom + n, mode }))

/** What this process can run at this moment: the providers are there and, for live jobs, the gate is open. */
export const runnableKinds: Effect.Effect<
  ReadonlyArray<Runnable>,
  StoreUnavailable,
  Providers | GateWatch
> = Effect.gen(function* () {
  const { live, sandbox } = yield* Providers
  const gates = yield* GateWatch
  const runnable: Array<Runnable> = []
  for (const kind of yield* JobKinds) {
    if (serves(sandbox, kind)) runnable.push(...versionsIn("sandbox", kind))
    if (serves(live, kind) && (yield* gates.missing(kind.gate)).length === 0) runnable.push(...versionsIn("live", kind))
  }
  return runnable
})
