import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { PauseReason } from "../domain/Circuit.ts"

/** How a call ended, as the metrics name it. */
export type CallOutcome = "answered" | "failed" | "refused" | "broken" | "invalid" | "interrupted"

const calls = Metric.counter("kiln_provider_calls_total", {
  description: "Finished calls of live providers by outcome",
  incremental: true,
})
const seconds = Metric.histogram("kiln_provider_call_seconds", {
  description: "Duration of calls of live providers",
  boundaries: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600],
})
const paused = Metric.gauge("kiln_provider_paused", {
  description: "1 while a live provider is paused for this reason",
})

export const countCall = (provider: string, outcome: CallOutcome, durationMs: number): Effect.Effect<void> =>
  Effect.andThen(
    Metric.update(Metric.withAttributes(calls, { provider, outcome }), 1),
    Metric.update(Metric.withAttributes(seconds, { provider }), durationMs / 1_000),
  )

const reasons: ReadonlyArray<PauseReason> = ["quota", "configuration", "failing"]

/** Sets the gauges of a provider. `null` means that it is not paused. */
export const reportStanding = (provider: string, reason: PauseReason | null): Effect.Effect<void> =>
  Effect.forEach(
    reasons,
    (each) => Metric.update(Metric.withAttributes(paused, { provider, reason: each }), each === reason ? 1 : 0),
    { discard: true },
  )
