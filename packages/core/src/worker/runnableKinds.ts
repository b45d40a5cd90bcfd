import * as Effect from "effect/Effect"
import type { JobMode, StoreUnavailable } from "../domain/index.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import type { Runnable } from "../ports/index.ts"
import { Providers, type ProviderSet } from "../providers/index.ts"
import { ProviderGuard } from "../providers/ProviderGuard.ts"
import { GateWatch, missingOf } from "./GateWatch.ts"

/** The kinds that this process can run now, and the maximum number of jobs to claim at once. */
export interface RunnableNow {
  readonly runnable: ReadonlyArray<Runnable>
  readonly atMost: number
}

/** Returns the providers that serve the kind here; `undefined` if none of its sets is complete. */
export const servedBy = (providers: ProviderSet, kind: JobKind): ReadonlyArray<string> | undefined =>
  kind.providers.find((names) => names.every((name) => providers[name] !== undefined))

/** The kinds this process can serve live, whether or not they may run now. */
export const liveKinds = Effect.gen(function* () {
  const { live } = yield* Providers
  return (yield* JobKinds).filter((kind) => servedBy(live, kind) !== undefined).map((kind) => kind.name)
})

/** Returns an entry for each version whose requests the kind can run. */
const versionsIn = (mode: JobMode, { name, readsFrom, version }: JobKind): ReadonlyArray<Runnable> =>
  Array.from({ length: version - readsFrom + 1 }, (_, n) => ({ kind: name, kindVersion: readsFrom + n, mode }))

/**
 * The kinds that are not paused, whose providers are configured and, for live jobs, have capacity, and whose gate is open. A claim
 * cannot limit each kind separately, so it requests no more jobs than the kind with the least capacity can run; the next claim
 * follows soon.
 */
export const runnableKinds: Effect.Effect<RunnableNow, StoreUnavailable, Providers | ProviderGuard | GateWatch> =
  Effect.gen(function* () {
    const { live, sandbox } = yield* Providers
    const guard = yield* ProviderGuard
    const board = yield* (yield* GateWatch).board
    const runnable: Array<Runnable> = []
    let atMost = Infinity
    for (const kind of yield* JobKinds) {
      if (board.pausedKinds.includes(kind.name)) continue
      if (servedBy(sandbox, kind) !== undefined) runnable.push(...versionsIn("sandbox", kind))
      const names = servedBy(live, kind)
      if (names === undefined || missingOf(kind.gate, board).length > 0) continue
      const room = names.length === 0 ? Infinity : yield* guard.room(names)
      if (room === 0) continue
      runnable.push(...versionsIn("live", kind))
      atMost = Math.min(atMost, room)
    }
    return { runnable, atMost }
  })
