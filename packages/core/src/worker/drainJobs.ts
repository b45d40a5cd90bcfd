import * as Effect from "effect/Effect"
import { monotonicMs } from "../domain/monotonicMs.ts"
import { JobEvents } from "../engine/JobEvents.ts"
import { requireOriginal } from "../installation/copies.ts"
import { type Deliveries, makeDeliveries } from "./maintenance/deliverFinished.ts"
import { fireSchedules, runSchedules } from "./maintenance/fireSchedules.ts"
import { expireOverdue } from "./maintenance/Sweeper.ts"
import { Worker } from "./Worker.ts"
import type { Drained, DrainLimits } from "./Drained.ts"

/** The pause between two looks for finished jobs while jobs or calls of `onFinished` run. */
const deliveryPauseMs = 1_000

/** Counts the attempts of this process until the scope closes. */
const countAttempts = Effect.gen(function* () {
  const events = yield* JobEvents
  const counts = { attempts: 0, done: 0, failed: 0 }
  const listening = Effect.sync(() =>
    events.listen((event) => {
      if (event.type === "active") counts.attempts += 1
      else if (event.type === "completed") counts.done += 1
      else if (event.type === "failed" && event.attempt !== undefined) counts.failed += 1
    }),
  )
  yield* Effect.acquireRelease(listening, (end) => Effect.sync(end))
  return counts
})

/** Submits the jobs of due ticks. One look handles the first of several ticks of a schedule. */
const fireAll = Effect.repeat(fireSchedules, { until: (pauseMs) => pauseMs > 0 })

/** Calls `onFinished` for about a second, or until no call is due and none is running. */
const deliverBriefly = Effect.fnUntraced(function* ({ areRunning, ended, startDue }: Deliveries) {
  const untilMs = (yield* monotonicMs) + deliveryPauseMs
  do {
    const started = yield* startDue
    if (started === 0 && !areRunning()) return
    if (started === 0) yield* Effect.race(ended, Effect.sleep(deliveryPauseMs))
  } while ((yield* monotonicMs) < untilMs)
})

/**
 * Does once what the processes with workers do all the time: submits the jobs of due schedules, runs all jobs that can be claimed, and
 * calls `onFinished`. Returns when nothing is left to do now, or at a limit. Jobs that still run at the end of the time are released at no cost of an
 * attempt. Interruption gives them the time of a stop. Needs a worker that does not run.
 */
export const drainJobs = Effect.fnUntraced(function* ({ maxJobs = Infinity, maxMs }: DrainLimits) {
  yield* requireOriginal
  const worker = yield* Worker
  const untilMs = (yield* monotonicMs) + maxMs
  const counts = yield* countAttempts
  const work = Effect.gen(function* () {
    const deliveries = yield* makeDeliveries
    yield* Effect.forkScoped(runSchedules(Effect.never))
    yield* expireOverdue
    const loop = Effect.gen(function* () {
      let left = maxJobs
      for (;;) {
        yield* fireAll
        // Before the calls of `onFinished`: jobs must not wait for a receiver that hangs.
        const ran = left > 0 ? yield* worker.runClaimable(left, untilMs) : 0
        left -= ran
        if (ran > 0) continue
        yield* deliverBriefly(deliveries)
        // A call may have submitted a job that can run now, also one that ran while the store answered that there is none.
        if (!deliveries.takeActivity()) return left > 0 ? ("empty" as const) : ("maxJobs" as const)
      }
    })
    const meanwhile = Effect.catchCause(deliveries.startDue, (cause) =>
      Effect.logWarning("looking for finished jobs failed", cause),
    )
    // Not in the scope, whose end gives back what is running: nothing may be claimed after that.
    return yield* Effect.raceFirst(loop, Effect.forever(Effect.andThen(Effect.sleep(deliveryPauseMs), meanwhile)))
  })
  const timeIsOver = Effect.as(Effect.sleep(maxMs), "maxMs" as const)
  const stoppedBy = yield* Effect.raceFirst(Effect.scoped(work), timeIsOver)
  return { ...counts, stoppedBy } satisfies Drained
}, Effect.scoped)
