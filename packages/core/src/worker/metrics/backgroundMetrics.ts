import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { listSchedules, type PlacedSchedule } from "../../engine/schedules.ts"
import { DeliveryStore, ScheduleStore } from "../../ports/index.ts"
import type { MetricFamilies } from "./MetricFamilies.ts"

/** The outcome of a due schedule. `missed`: its due ticks got no job. `skipped`: the last job is unfinished. `refused`: the job is tried again. */
export type TickOutcome = "submitted" | "missed" | "skipped" | "refused"

const deliveryOutcomes = ["confirmed", "failed", "given_up"] as const

/** The outcome of a call of `onFinished`. `given_up`: it failed for the last time. */
export type DeliveryOutcome = (typeof deliveryOutcomes)[number]

/** Measures what this process does for schedules and finished jobs. It must be quick, and must not throw. */
export interface BackgroundMeter {
  readonly ticked: (kind: string, outcome: TickOutcome) => void
  /** This process calls `onFinished` of these kinds: their series begin at 0, so that the first call is visible as an increase. */
  readonly delivers: (kinds: Iterable<string>) => void
  readonly delivered: (kind: string, outcome: DeliveryOutcome) => void
}

/** The meter of this process; nothing is measured without one. */
export const BackgroundMeter = Context.Reference<BackgroundMeter | undefined>("@kiln/core/worker/BackgroundMeter", {
  defaultValue: () => undefined,
})

export const tellBackground = (what: (meter: BackgroundMeter) => void): Effect.Effect<void> =>
  Effect.map(BackgroundMeter, (meter) => {
    if (meter !== undefined) what(meter)
  })

/** Milliseconds for which a measurement is good, however often metrics are read. */
const goodForMs = 5_000

/** Counts what this process does for schedules and finished jobs. */
export const backgroundMeter = (families: MetricFamilies): BackgroundMeter => {
  const ticks = families.counter(
    "kiln_schedule_ticks_total",
    "Ticks of schedules that this process has handled: submitted, missed, skipped because the last job is unfinished, or refused and tried again",
    "kind",
    "outcome",
  )
  const calls = families.counter(
    "kiln_delivery_calls_total",
    "Calls of onFinished in this process: confirmed, failed and called again, or given up",
    "kind",
    "outcome",
  )
  return {
    ticked: (kind, outcome) => ticks.record([kind, outcome], 1),
    delivers: (kinds) => {
      for (const kind of kinds) for (const outcome of deliveryOutcomes) calls.record([kind, outcome], 0)
    },
    delivered: (kind, outcome) => calls.record([kind, outcome], 1),
  }
}

const states = ["active", "refused", "paused", "ended"] as const

const stateOf = ({ nextAt, paused, refusal }: PlacedSchedule): (typeof states)[number] => {
  if (paused) return "paused"
  if (nextAt === null) return "ended"
  return refusal === null ? "active" : "refused"
}

/**
 * Returns the effect that sets the gauges of schedules and deliveries. Each process asks the store at most once in five seconds. If
 * the store does not answer, the gauges keep their values.
 */
export const backgroundMeasurement = (families: MetricFamilies) =>
  Effect.gen(function* () {
    const counted = families.gauge(
      "kiln_schedules",
      "Schedules of the installation by state: active, refused (the job of the current tick), paused or ended. Use max",
      "state",
    )
    const late = families.gauge(
      "kiln_schedule_oldest_due_seconds",
      "Age of the oldest tick whose job is not submitted yet, except for those that wait for the last job of their schedule; 0 without one. Use max",
    )
    const pending = families.gauge(
      "kiln_deliveries",
      "Finished jobs of the installation whose delivery to onFinished is not confirmed. Use max",
      "kind",
    )
    const repeated = families.gauge(
      "kiln_deliveries_repeated",
      "Those of kiln_deliveries whose first call was not confirmed. Use max",
      "kind",
    )
    const oldest = families.gauge(
      "kiln_delivery_oldest_due_seconds",
      "Age of the oldest delivery that could be made; 0 without one. Use max",
      "kind",
    )
    const scheduleStore = yield* ScheduleStore
    const deliveries = yield* DeliveryStore
    const seen = new Set<string>()
    const measure = Effect.gen(function* () {
      const { now, schedules } = yield* listSchedules
      for (const state of states)
        counted.record([state], schedules.filter((schedule) => stateOf(schedule) === state).length)
      // A tick that waits for the last job of its schedule is in time.
      const due = schedules.flatMap(({ nextAt, waits }) => (nextAt === null || waits === true ? [] : now - nextAt))
      late.record([], Math.max(0, ...due) / 1_000)
      const counts = yield* deliveries.countDeliveries
      for (const { kind } of counts) seen.add(kind)
      for (const kind of seen) {
        const found = counts.find((each) => each.kind === kind)
        pending.record([kind], found?.count ?? 0)
        repeated.record([kind], found?.repeated ?? 0)
        oldest.record([kind], (found?.oldestDueMs ?? 0) / 1_000)
      }
    }).pipe(Effect.provideService(ScheduleStore, scheduleStore))
    return yield* Effect.cachedWithTTL(
      Effect.catchCause(measure, (cause) => Effect.logDebug("could not measure schedules and deliveries", cause)),
      goodForMs,
    )
  })
