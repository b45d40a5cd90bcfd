import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** The outcome of a due schedule. `missed`: its due ticks got no job. `skipped`: the last job is unfinished. `refused`: the job is tried again. */
export type TickOutcome = "submitted" | "missed" | "skipped" | "refused"

/** The outcome of a call of `onFinished`. `given_up`: it failed for the last time. */
export type DeliveryOutcome = "confirmed" | "failed" | "given_up"

/** Measures what this process does for schedules and finished jobs. It must be quick, and must not throw. */
export interface BackgroundMeter {
  readonly ticked: (kind: string, outcome: TickOutcome) => void
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
