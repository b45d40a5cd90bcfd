import {
  providerCallBoundaries,
  providerCalls,
  providerCallSeconds,
  type ProviderMeter,
  providerPaused,
} from "../providers/providerMetrics.ts"
import type { MetricFamilies } from "../worker/metrics/MetricFamilies.ts"

/** Measures the calls of live providers, under the names that Effect's registry has them. */
export const providerMeter = (families: MetricFamilies): ProviderMeter => {
  const about = ({ description = "" }: { readonly description: string | undefined }) => description
  const calls = families.counter(providerCalls.id, about(providerCalls), "provider", "outcome")
  const seconds = families.histogram(
    providerCallSeconds.id,
    about(providerCallSeconds),
    providerCallBoundaries,
    "provider",
  )
  const paused = families.gauge(providerPaused.id, about(providerPaused), "provider", "reason")
  return {
    called: (provider, outcome, durationMs) => {
      calls.record([provider, outcome], 1)
      seconds.record([provider], durationMs / 1_000)
    },
    paused: (provider, reason, isPaused) => paused.record([provider, reason], isPaused ? 1 : 0),
  }
}
