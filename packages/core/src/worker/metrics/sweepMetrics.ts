import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"

const sweeps = Metric.counter("kiln_sweeps_total", {
  description: "Sweeps that this process has finished, by sweep and outcome (done, failed)",
  incremental: true,
})
const found = Metric.counter("kiln_sweep_items_total", {
  description: "Records, purges and files that sweeps of this process have dealt with",
  incremental: true,
})
const seconds = Metric.histogram("kiln_sweep_duration_seconds", {
  description: "Duration of sweeps",
  boundaries: [0.001, 0.01, 0.1, 1, 10, 60, 600],
})
const lastDone = Metric.gauge("kiln_sweep_last_done_timestamp_seconds", {
  description: "Time of the last sweep that did not fail, in Unix seconds",
})

/** Measures a sweep that returns the number of items it has dealt with. */
export const measureSweep = <E, R>(sweep: string, work: Effect.Effect<number, E, R>): Effect.Effect<number, E, R> =>
  Effect.gen(function* () {
    const beganAt = yield* Clock.currentTimeMillis
    const exit = yield* Effect.exit(work)
    const endedAt = yield* Clock.currentTimeMillis
    const failed = Exit.isSuccess(exit) ? 0 : 1
    // Both series exist from the first sweep on, so that the first failure is visible as an increase.
    yield* Metric.update(Metric.withAttributes(sweeps, { sweep, outcome: "failed" }), failed)
    yield* Metric.update(Metric.withAttributes(sweeps, { sweep, outcome: "done" }), 1 - failed)
    yield* Metric.update(Metric.withAttributes(seconds, { sweep }), Math.max(0, endedAt - beganAt) / 1_000)
    if (Exit.isSuccess(exit)) {
      yield* Metric.update(Metric.withAttributes(found, { sweep }), exit.value)
      yield* Metric.update(Metric.withAttributes(lastDone, { sweep }), endedAt / 1_000)
    }
    return yield* exit
  })
