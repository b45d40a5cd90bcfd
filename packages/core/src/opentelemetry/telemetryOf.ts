import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import type { Telemetry } from "../embed/openEmbedded.ts"
import { CallerSpan } from "../engine/CallerSpan.ts"
import {
  providerCallBoundaries,
  providerCalls,
  providerCallSeconds,
  ProviderMeter,
  providerPaused,
} from "../providers/providerMetrics.ts"
import { AttemptMeter } from "../worker/metrics/AttemptMeter.ts"
import { BackgroundMeter } from "../worker/metrics/BackgroundMeter.ts"
import { backgroundMeasurement, backgroundMeter } from "../worker/metrics/backgroundMetrics.ts"
import { jobMetrics } from "../worker/metrics/jobMetrics.ts"
import type { MetricFamilies } from "../worker/metrics/MetricFamilies.ts"
import { queueMeasurement } from "../worker/metrics/queueMetrics.ts"
import { workerMetrics } from "../worker/metrics/workerMetrics.ts"
import { Worker } from "../worker/Worker.ts"
import { apiMetrics } from "./apiMetrics.ts"
import { apiTracer } from "./apiTracer.ts"
import type { OpenTelemetryApi, OtelMeter } from "./OpenTelemetryApi.ts"

/** Milliseconds to wait for the store. Without its answer, the gauges of the queue keep their values. */
const storeLimitMs = 2_000

/** Whether an SDK receives traces. Without one, the global provider stands in for a provider that may follow. */
const tracesAreReceived = ({ trace }: OpenTelemetryApi): boolean => {
  const provider = trace.getTracerProvider() as { readonly getDelegateTracer?: (name: string) => unknown }
  return typeof provider.getDelegateTracer !== "function" || provider.getDelegateTracer("@kiln/core") !== undefined
}

/** The meter of the SDK that receives metrics, if there is one. */
const receivedMeter = (api: OpenTelemetryApi): OtelMeter | undefined => {
  const meter = api.metrics.getMeter("@kiln/core")
  return meter === api.createNoopMeter() ? undefined : meter
}

/** Reports to the SDKs that are registered by now. What none of them receives is neither traced nor measured. */
export const telemetryOf = (api: OpenTelemetryApi): Telemetry => {
  const traces = tracesAreReceived(api)
  const meter = receivedMeter(api)
  const traced = traces ? references(apiTracer(api)) : Context.empty()
  const missing = [...(traces ? [] : ["traces"]), ...(meter ? [] : ["metrics"])].join(" and ")
  const note =
    missing === ""
      ? Effect.void
      : Effect.logInfo(`no OpenTelemetry SDK for ${missing} was registered when the engine was created`)
  if (meter === undefined) return { references: traced, measure: note }
  const metrics = apiMetrics(meter)
  const { attemptMeter, countJobs } = jobMetrics(metrics)
  return {
    references: traced.pipe(
      Context.add(AttemptMeter, attemptMeter),
      Context.add(BackgroundMeter, backgroundMeter(metrics)),
      Context.add(ProviderMeter, providerMeter(metrics)),
    ),
    measure: Effect.gen(function* () {
      yield* note
      yield* countJobs
      const worker = yield* Worker
      const measureWorker = workerMetrics(metrics)
      const measureQueue = yield* queueMeasurement(metrics)
      const measureBackground = yield* backgroundMeasurement(metrics)
      const measureStore = Effect.all([measureQueue, measureBackground], { discard: true })
      const refresh = Effect.andThen(measureWorker(worker), Effect.timeoutOption(measureStore, storeLimitMs))
      const run = Effect.runPromiseExitWith(yield* Effect.context())
      yield* Effect.acquireRelease(
        Effect.sync(() => metrics.observe(() => run(refresh))),
        (stop) => Effect.sync(stop),
      )
    }),
  }
}

const references = ({ callerSpan, tracer }: ReturnType<typeof apiTracer>): Context.Context<never> =>
  Context.make(Tracer.Tracer, tracer).pipe(Context.add(CallerSpan, callerSpan))

/** Measures the calls of live providers, under the names that Effect's registry has them. */
const providerMeter = (families: MetricFamilies): ProviderMeter => {
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
