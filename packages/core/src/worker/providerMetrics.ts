import { Effect, Metric } from "effect"
import type { PauseReason } from "../domain/Circuit.ts"
import type { ProviderName } from "../ports/index.ts"

/** How a call of a provider ended, as its metrics name it. */
export type CallOutcome = "answered" | "failed" | "refused" | "broken" | "invalid" | "interrupted"

const calls = Metric.counter("kiln_provider_calls_total", {
  description: "Calls of live providers that ended, by how they did",
  incremental: true,
})
const seconds = Metric.histogram("kiln_provider_call_seconds", {
  description: "How long calls of live providers took",
  boundaries: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600],
})
const paused = Metric.gauge("kiln_provider_paused", {
  description: "1 while a live provider is paused for this reason",
})

export const countCall = (provider: ProviderName, outcome: CallOutcome, durationMs: number): Effect.Effect<void> =>
  Effect.andThen(
    Metric.update(Metric.withAttributes(calls, { provider, outcome }), 1),
    Metric.update(Metric.withAttributes(seconds, { provider }), durationMs / 1_000),
  )

const reasons: ReadonlyArray<PauseReason> = ["quota", "configuration", "failing"]

/** `null` when it is not paused. */
export const reportStanding = (provider: ProviderName, reason: PauseReason | null): Effect.Effect<void> =>
  Effect.forEach(
    reasons,
    (each) => Metric.update(Metric.withAttributes(paused, { provider, reason: each }), each === reason ? 1 : 0),
    { discard: true },
  )
