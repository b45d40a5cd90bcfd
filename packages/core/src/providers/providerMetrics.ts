import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { PauseReason } from "../domain/Circuit.ts"

/** The outcome of a call, as the metrics name it. */
export type CallOutcome = "answered" | "failed" | "refused" | "broken" | "invalid" | "interrupted"

/** Upper bounds of the buckets of `providerCallSeconds`. */
export const providerCallBoundaries = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

export const providerCalls = Metric.counter("kiln_provider_calls_total", {
  description: "Finished calls of live providers by outcome",
  incremental: true,
})
export const providerCallSeconds = Metric.histogram("kiln_provider_call_seconds", {
  description: "Duration of calls of live providers",
  boundaries: providerCallBoundaries,
})
export const providerPaused = Metric.gauge("kiln_provider_paused", {
  description: "1 while a live provider is paused for this reason",
})

/** Receives what the metrics above receive, for a backend that does not read Effect's registry. It must not throw. */
export interface ProviderMeter {
  readonly called: (provider: string, outcome: CallOutcome, durationMs: number) => void
  /** Whether the provider is paused for this reason. */
  readonly paused: (provider: string, reason: PauseReason, isPaused: boolean) => void
}

/** The meter of this process's live providers; by default, there is only Effect's registry. */
export const ProviderMeter = Context.Reference<ProviderMeter | undefined>("@kiln/core/providers/ProviderMeter", {
  defaultValue: () => undefined,
})

const tell = (what: (meter: ProviderMeter) => void): Effect.Effect<void> =>
  Effect.map(ProviderMeter, (meter) => {
    if (meter !== undefined) what(meter)
  })

export const countCall = (provider: string, outcome: CallOutcome, durationMs: number): Effect.Effect<void> =>
  Effect.all(
    [
      Metric.update(Metric.withAttributes(providerCalls, { provider, outcome }), 1),
      Metric.update(Metric.withAttributes(providerCallSeconds, { provider }), durationMs / 1_000),
      tell(({ called }) => called(provider, outcome, durationMs)),
    ],
    { discard: true },
  )

const reasons: ReadonlyArray<PauseReason> = ["quota", "configuration", "failing"]

/** Sets the gauges of a provider. `null` means that it is not paused. */
export const reportStanding = (provider: string, reason: PauseReason | null): Effect.Effect<void> =>
  Effect.forEach(
    reasons,
    (each) =>
      Effect.andThen(
        Metric.update(Metric.withAttributes(providerPaused, { provider, reason: each }), each === reason ? 1 : 0),
        tell(({ paused }) => paused(provider, each, each === reason)),
      ),
    { discard: true },
  )
