import { Effect } from "effect"
import type { JobMode, StoreUnavailable } from "../domain/index.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import { type ProviderName, Providers, type ProviderSet, type Runnable } from "../ports/index.ts"
import { GateWatch } from "./GateWatch.ts"
import { ProviderGuard } from "./ProviderGuard.ts"

/** Those of the kind's providers that serve it here; `undefined` where none of its sets is whole. */
const servedBy = (providers: ProviderSet, kind: JobKind): ReadonlyArray<ProviderName> | undefined =>
  kind.providers.find((names) => names.every((name) => providers[name] !== undefined))

/** The kinds this process can serve live, whether or not they may run now. */
export const liveKinds = Effect.gen(function* () {
  const { live } = yield* Providers
  return (yield* JobKinds).filter((kind) => servedBy(live, kind) !== undefined).map((kind) => kind.name)
})

/** One for each version whose requests the kind can run. */
const versionsIn = (mode: JobMode, { name, readsFrom, version }: JobKind): ReadonlyArray<Runnable> =>
  Array.from({ length: version - readsFrom + 1 }, (_, n) => ({ kind: name, kindVersion: readsFrom + n, mode }))

/** What this process can run at this moment: the providers are there and, for live jobs, admit calls and the gate is open. */
export const runnableKinds: Effect.Effect<
  ReadonlyArray<Runnable>,
  StoreUnavailable,
  Providers | ProviderGuard | GateWatch
> = Effect.gen(function* () {
  const { live, sandbox } = yield* Providers
  const gates = yield* GateWatch
  const guard = yield* ProviderGuard
  const runnable: Array<Runnable> = []
  for (const kind of yield* JobKinds) {
    if (servedBy(sandbox, kind) !== undefined) runnable.push(...versionsIn("sandbox", kind))
    const names = servedBy(live, kind)
    if (names === undefined || !(yield* guard.admits(names))) continue
    if ((yield* gates.missing(kind.gate)).length === 0) runnable.push(...versionsIn("live", kind))
  }
  return runnable
})
