import { Clock, Effect } from "effect"
import { StoreUnavailable } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { tellFailed } from "../engine/tellFailed.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import { JobStore } from "../ports/index.ts"
import { ProviderGuard } from "./ProviderGuard.ts"
import { limitsWith } from "./limitsWith.ts"
import { giveBackLapsed } from "./recovery.ts"
import { runnableKinds } from "./runnableKinds.ts"
import type { Slots } from "./Slots.ts"

/** Claims up to `limit` jobs of the kinds this worker can run now, after giving back what an outage left behind. */
export const claimInto = Effect.fnUntraced(function* (slots: Slots, limit: number) {
  const { attempts, leaseDurationMs, limits } = yield* EngineConfig
  const store = yield* JobStore
  const guard = yield* ProviderGuard
  const now = yield* runnableKinds
  const runnable = now.runnable.filter(({ kind }) => !slots.withheld.has(kind))
  yield* answeredWithin(leaseDurationMs, "releaseJobs", giveBackLapsed(slots))
  // Only from here on: what was given back slowly must not take from the time of what is claimed.
  const askedAtNanos = yield* Clock.monotonicTimeNanos
  const maxLostWorkers = attempts.maxLostWorkers
  const result = yield* answeredWithin(
    leaseDurationMs,
    "claimJobs",
    store.claimJobs({
      runnable,
      limits: limitsWith(limits, yield* JobKinds),
      limit: Math.min(limit, now.atMost),
      leaseDurationMs,
      maxLostWorkers,
    }),
  )
  if (result.abandoned.length > 0) {
    yield* Effect.logWarning("jobs that lost their last worker", result.abandoned)
    yield* tellFailed(result.abandoned)
  }
  // What waits for a paused provider was not asked for, so the store does not tell when to look for it.
  return { ...result, nextInMs: earlier(result.nextInMs, yield* guard.nextTryInMs), askedAtNanos }
})

const earlier = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)

/** An answer that comes after a lease's time grants only leases that are over; who stops must not wait for it for ever. */
const answeredWithin = <A, R>(
  leaseDurationMs: number,
  operation: string,
  answer: Effect.Effect<A, StoreUnavailable, R>,
): Effect.Effect<A, StoreUnavailable, R> =>
  Effect.raceFirst(
    Effect.interruptible(answer),
    Effect.andThen(
      Effect.interruptible(Effect.sleep(leaseDurationMs)),
      Effect.fail(new StoreUnavailable({ operation, cause: "no answer within a lease's time" })),
    ),
  )
