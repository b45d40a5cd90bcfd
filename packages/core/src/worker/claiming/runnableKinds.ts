import * as Effect from "effect/Effect"
import type { Board, JobMode, StoreUnavailable } from "../../domain/index.ts"
import type { KindQuota } from "../../domain/JobsInProgress.ts"
import { givenField } from "../../domain/givenValues.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { installedKinds } from "../../kinds/installedKinds.ts"
import type { Runnable } from "../../ports/index.ts"
import { type CallRate, Providers, type ProviderSet } from "../../providers/index.ts"
import { ProviderGuard } from "../../providers/ProviderGuard.ts"
import { GateWatch, missingOf } from "./GateWatch.ts"
import { Rates } from "./Rates.ts"

/** The kinds that this process can run now, and the maximum number of jobs to claim at once. */
export interface RunnableNow {
  readonly runnable: ReadonlyArray<Runnable>
  readonly atMost: Readonly<Record<JobMode, number>>
  /** For the kinds that rates limit. */
  readonly quotas: ReadonlyArray<KindQuota>
  /** The concurrency limits that projects have of their own. */
  readonly projects: Board["projectConcurrency"]
}

/** Returns the providers that serve the kind here; `undefined` if none of its sets is complete. */
export const servedBy = (providers: ProviderSet, kind: JobKind): ReadonlyArray<string> | undefined =>
  kind.providers.find((names) => names.every((name) => givenField(providers, name) !== undefined))

/** The kinds this process can serve live, whether or not they may run now. */
export const liveKinds = Effect.gen(function* () {
  const { live } = yield* Providers
  return (yield* installedKinds).filter((kind) => servedBy(live, kind) !== undefined).map((kind) => kind.name)
})

/** Returns an entry for each version whose requests the kind can run. */
const versionsIn = (mode: JobMode, { name, readsFrom, version }: JobKind): ReadonlyArray<Runnable> =>
  Array.from({ length: version - readsFrom + 1 }, (_, n) => ({ kind: name, kindVersion: readsFrom + n, mode }))

/** The number of further jobs of each kind that the rates allow now; `Infinity` without rates. */
const roomIn = Effect.fnUntraced(function* (rates: ReadonlyArray<CallRate<unknown> | undefined>) {
  let count = Infinity
  for (const rate of rates) if (rate !== undefined) count = Math.min(count, yield* rate.room)
  return count
})

/**
 * The kinds that are not paused, whose providers are configured and, for live jobs, have capacity, and whose gate is open. A claim
 * does not limit concurrent calls of each kind separately, so it requests no more jobs than the kind with the least capacity can
 * run; the next claim follows soon. What rates allow is limited for each kind.
 */
export const runnableKinds: Effect.Effect<
  RunnableNow,
  StoreUnavailable,
  Providers | ProviderGuard | GateWatch | Rates
> = Effect.gen(function* () {
  const { live, sandbox } = yield* Providers
  const guard = yield* ProviderGuard
  const rates = yield* Rates
  const board = yield* (yield* GateWatch).board
  rates.startClaim()
  const quotas: Array<KindQuota> = []
  const add = (kind: JobKind, mode: JobMode, count: number) => {
    runnable.push(...versionsIn(mode, kind))
    if (count !== Infinity) quotas.push({ kind: kind.name, mode, count })
  }
  const runnable: Array<Runnable> = []
  const atMost = { live: Infinity, sandbox: Infinity }
  /** Adds a kind as far as its providers and rates allow it now. */
  const addGuarded = Effect.fnUntraced(function* (kind: JobKind, mode: JobMode, served: ReadonlyArray<string>) {
    const names = guard.guardedIn(mode, served)
    const room = names.length === 0 ? Infinity : yield* guard.room(names)
    if (room === 0) return
    const quota = yield* roomIn([rates.ofKind(kind.name, mode), ...guard.rates(names)])
    if (quota === 0) return
    add(kind, mode, quota)
    atMost[mode] = Math.min(atMost[mode], room)
  })
  for (const kind of yield* installedKinds) {
    if (board.pausedKinds.includes(kind.name)) continue
    const simulated = servedBy(sandbox, kind)
    if (simulated !== undefined) yield* addGuarded(kind, "sandbox", simulated)
    const names = servedBy(live, kind)
    if (names !== undefined && missingOf(kind.gate, board).length === 0) yield* addGuarded(kind, "live", names)
  }
  return { runnable, atMost, quotas, projects: board.projectConcurrency }
})
