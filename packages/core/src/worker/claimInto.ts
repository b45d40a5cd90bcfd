import { Clock, Effect } from "effect"
import { StoreUnavailable } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { type ClaimResult, JobStore } from "../ports/index.ts"
import { giveBackLapsed } from "./recovery.ts"
import { runnableKinds } from "./runnableKinds.ts"
import type { Slots } from "./Slots.ts"

/** Claims up to `limit` jobs of the kinds this worker can run now, after giving back what an outage left behind. */
export const claimInto = Effect.fnUntraced(function* (slots: Slots, limit: number) {
  const { attempts, leaseDurationMs } = yield* EngineConfig
  const store = yield* JobStore
  const runnable = (yield* runnableKinds).filter(({ kind }) => !slots.withheld.has(kind))
  const askedAtNanos = yield* Clock.monotonicTimeNanos
  const result = yield* giveBackLapsed(slots).pipe(
    Effect.andThen(store.claimJobs({ runnable, limit, leaseDurationMs, maxLostWorkers: attempts.maxLostWorkers })),
    inTime(leaseDurationMs),
  )
  if (result.abandoned.length > 0) yield* Effect.logWarning("jobs that lost their last worker", result.abandoned)
  return { ...result, askedAtNanos }
})

/** An answer that comes after a lease's time grants only leases that are over; who stops must not wait for it for ever. */
const inTime = (leaseDurationMs: number) => (answer: Effect.Effect<ClaimResult, StoreUnavailable, JobStore>) =>
  Effect.raceFirst(
    Effect.interruptible(answer),
    Effect.andThen(
      Effect.interruptible(Effect.sleep(leaseDurationMs)),
      Effect.fail(new StoreUnavailable({ operation: "claimJobs", cause: "no answer within a lease's time" })),
    ),
  )
