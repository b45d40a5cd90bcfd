import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { valueOf } from "../../domain/givenValues.ts"
import { projectShare } from "../../domain/rules.ts"
import type { WorkerScope } from "../../domain/index.ts"
import type { WorkerState } from "../../domain/WorkerScope.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { installedKinds } from "../../kinds/installedKinds.ts"
import { IdGenerator, Switchboard } from "../../ports/index.ts"
import { Providers } from "../../providers/index.ts"
import { ProviderGuard } from "../../providers/ProviderGuard.ts"
import { firstPause, makeOutageLog } from "../repeating.ts"
import { workerName } from "../workerName.ts"
import { liveKinds, servedBy } from "./conditions.ts"
import { limitsWith } from "./Slots.ts"

/** Facts about the process of a worker that only its program knows. */
export interface WorkerProcess {
  /** The version of the program; `null` if unknown. */
  readonly version: string | null
  /** Returns the lag of the event loop since the previous call (p99), in milliseconds; `null` if it is not measured. */
  readonly loopLagMs: () => number | null
}

export const WorkerProcess = Context.Reference<WorkerProcess>("@kiln/core/worker/WorkerProcess", {
  defaultValue: () => ({ version: null, loopLagMs: () => null }),
})

const intervalMs = 10_000
/**
 * A worker that died is forgotten after this time: readiness, metrics and the doctor show who runs. Live jobs are accepted for as long
 * as a worker served their kind within the queue limit, so a short life refuses nobody. A clean shutdown withdraws the entry.
 */
const ttlMs = 28_000
/** Milliseconds before a failed publication is retried. */
const retryMs = 1_000

/** The kinds this worker runs, and its limits. */
const scopeOfWorker = Effect.gen(function* () {
  const { concurrency, forcedOff, limits, providers: settings } = yield* EngineConfig
  const { live, sandbox } = yield* Providers
  const kinds = yield* installedKinds
  const { perKind, perProject } = limitsWith(limits, kinds)
  const served = kinds.flatMap((kind): WorkerScope["kinds"] => {
    const { gate, name, ports, readsFrom, version } = kind
    const providers = servedBy(live, kind)
    const isSandbox = servedBy(sandbox, kind) !== undefined
    if (providers === undefined && !isSandbox) return []
    const ofProviders = (providers ?? []).flatMap((provider) => {
      const port = ports.find((one) => one.name === provider)
      const { rate } = valueOf(settings, provider) ?? port?.bounds ?? {}
      return rate === undefined ? [] : [{ provider, limit: rate.limit, perMs: rate.perMs }]
    })
    const { rate } = kind.limits
    return [
      {
        kind: name,
        fromVersion: readsFrom,
        toVersion: version,
        modes: [...(providers === undefined ? [] : (["live"] as const)), ...(isSandbox ? (["sandbox"] as const) : [])],
        providers: providers ?? [],
        switches: gate.switches,
        limit: Object.hasOwn(perKind, name) ? (perKind[name] ?? null) : null,
        rates: [
          ...(rate === undefined ? [] : [{ provider: null, limit: rate.limit, perMs: rate.perMs }]),
          ...ofProviders,
        ],
      },
    ]
  })
  const share = limits.perProject === "share" ? projectShare(concurrency) : 0
  return { slots: concurrency, share, perProject, forcedOff, kinds: served } satisfies WorkerScope
})

/** What a worker publishes about its slots. */
export interface SlotsNow {
  readonly free: () => WorkerState["free"]
  readonly lastClaimAt: () => number | undefined
}

/**
 * Publishes in the store what this worker runs, which kinds it can serve live, its state, and the standings of its providers: at the
 * start, regularly, when it begins to drain, and whenever a provider is paused or resumes. Withdraws the entry when the worker stops.
 */
export const publishCapabilities = Effect.fnUntraced(function* ({ free, lastClaimAt }: SlotsNow) {
  const draining = yield* Deferred.make<void>()
  /** Makes the publication tell that the worker drains. */
  const drains = Deferred.succeed(draining, undefined)
  const switchboard = yield* Switchboard
  const guard = yield* ProviderGuard
  const kinds = yield* liveKinds
  const scope = yield* scopeOfWorker
  // A worker that serves no kind publishes nothing.
  if (scope.kinds.length === 0) return { drains }
  const workerId = (yield* IdGenerator).next("req")
  const { loopLagMs, version } = yield* WorkerProcess
  const stateNow = Effect.map(Deferred.isDone(draining), (isDraining): WorkerState => ({
    name: workerName(),
    version,
    draining: isDraining,
    lastClaimAt: lastClaimAt() ?? null,
    free: free(),
    loopLagMs: loopLagMs(),
  }))
  const outage = makeOutageLog("publishing the kinds that this worker serves")
  const publish = (forMs: number) =>
    Effect.all([guard.standings, stateNow]).pipe(
      Effect.flatMap(([providers, state]) =>
        switchboard.publishWorker({
          workerId,
          liveKinds: kinds,
          providers,
          scope: { ...scope, state },
          ttlMs: forMs,
        }),
      ),
      Effect.as(intervalMs),
      Effect.tap(() => outage.worked),
      Effect.catchCause((cause) => Effect.as(outage.failed(cause), retryMs)),
    )
  // A change during a publication makes it stale: publish again without the pause.
  const fromNow = Effect.forever(Effect.raceFirst(Effect.flatMap(publish(ttlMs), Effect.sleep), guard.changed))
  const again = Effect.raceFirst(Effect.flatMap(firstPause(intervalMs), Effect.sleep), guard.changed).pipe(
    Effect.andThen(fromNow),
    Effect.raceFirst(Deferred.await(draining)),
    Effect.andThen(fromNow),
  )
  // First, so that live jobs are accepted as soon as the worker runs.
  yield* Effect.acquireRelease(publish(ttlMs), () => publish(0))
  yield* Effect.forkScoped(again)
  return { drains }
})
