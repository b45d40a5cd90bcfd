import * as Effect from "effect/Effect"
import { IdGenerator, Switchboard } from "../ports/index.ts"
import { ProviderGuard } from "../providers/ProviderGuard.ts"
import { firstPause } from "./growingPauses.ts"
import { makeOutageLog } from "./outageLog.ts"
import { liveKinds } from "./runnableKinds.ts"

const intervalMs = 20_000
/**
 * Outlives a store outage of more than a minute, so that live jobs are accepted as soon as the store is available again. A clean
 * shutdown withdraws the entry. A crashed worker's entry stays this long in case it restarts.
 */
const ttlMs = 6 * intervalMs
/** Milliseconds before a failed publication is retried. */
const retryMs = 1_000

/**
 * Publishes in the store which kinds this worker can serve live, and the standings of its providers: at the start, regularly, and
 * whenever a provider is paused or resumes. Withdraws the entry when the worker stops.
 */
export const publishCapabilities = Effect.gen(function* () {
  const switchboard = yield* Switchboard
  const guard = yield* ProviderGuard
  const kinds = yield* liveKinds
  // A worker that serves no live kind publishes nothing.
  if (kinds.length === 0) return
  const workerId = (yield* IdGenerator).next("req")
  const outage = makeOutageLog("publishing the kinds that this worker serves")
  const publish = (forMs: number) =>
    guard.standings.pipe(
      Effect.flatMap((providers) => switchboard.publishWorker({ workerId, liveKinds: kinds, providers, ttlMs: forMs })),
      Effect.as(intervalMs),
      Effect.tap(() => outage.worked),
      Effect.catchCause((cause) => Effect.as(outage.failed(cause), retryMs)),
    )
  const again = Effect.andThen(
    Effect.raceFirst(Effect.flatMap(firstPause(intervalMs), Effect.sleep), guard.changed),
    // A change during a publication makes it stale: publish again without the pause.
    Effect.forever(Effect.raceFirst(Effect.flatMap(publish(ttlMs), Effect.sleep), guard.changed)),
  )
  // First, so that live jobs are accepted as soon as the worker runs.
  yield* Effect.acquireRelease(publish(ttlMs), () => publish(0))
  yield* Effect.forkScoped(again)
})
