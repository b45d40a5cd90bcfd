import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import type { Telemetry } from "../embed/openEmbedded.ts"
import { CallerSpan } from "../engine/spans.ts"
import {
  providerCallBoundaries,
  providerCalls,
  providerCallSeconds,
  ProviderMeter,
  providerPaused,
} from "../providers/circuitBreaker.ts"
import { backgroundMeasurement, BackgroundMeter, backgroundMeter } from "../worker/metrics/backgroundMetrics.ts"
import { AttemptMeter, jobMetrics } from "../worker/metrics/jobMetrics.ts"
import type { MetricFamilies, MetricFamily } from "../worker/metrics/MetricFamilies.ts"
import { queueMeasurement, workerMetrics } from "../worker/metrics/workerMetrics.ts"
import { Worker } from "../worker/Worker.ts"
import { apiTracer } from "./apiTracer.ts"
import type {
  OpenTelemetryApi,
  OtelAttributes,
  OtelBatchCallback,
  OtelMeter,
  OtelMetricOptions,
} from "./OpenTelemetryApi.ts"

const optionsOf = (name: string, description: string): OtelMetricOptions => ({
  description,
  ...(name.endsWith("_seconds") && { unit: "s" }),
})

/** Returns a family whose attributes are made once for each series. */
const family = (labels: ReadonlyArray<string>, record: (value: number, attributes: OtelAttributes) => void) => {
  const series = new Map<string, OtelAttributes>()
  const attributesOf = (values: ReadonlyArray<string>): OtelAttributes => {
    const key = values.join("\n")
    const known = series.get(key)
    if (known !== undefined) return known
    const made = Object.fromEntries(labels.map((label, index) => [label, values[index] ?? ""]))
    series.set(key, made)
    return made
  }
  return { record: (values, value) => record(value, attributesOf(values)) } satisfies MetricFamily
}

/** Metrics of a meter. Gauges are read when the meter's reader collects. */
export interface ApiMetrics extends MetricFamilies {
  /** Brings the gauges up to date before each collection, until the function that it returns is called. */
  readonly observe: (refresh: () => Promise<unknown>) => () => void
}

export const apiMetrics = (meter: OtelMeter): ApiMetrics => {
  const gauges: Array<{ readonly gauge: object; readonly values: ReadonlyMap<OtelAttributes, number> }> = []
  return {
    counter: (name, description, ...labels) => {
      const counter = meter.createCounter(name, optionsOf(name, description))
      return family(labels, (value, attributes) => counter.add(value, attributes))
    },
    gauge: (name, description, ...labels) => {
      const values = new Map<OtelAttributes, number>()
      gauges.push({ gauge: meter.createObservableGauge(name, optionsOf(name, description)), values })
      return family(labels, (value, attributes) => void values.set(attributes, value))
    },
    histogram: (name, description, boundaries, ...labels) => {
      const advice = { explicitBucketBoundaries: [...boundaries] }
      const histogram = meter.createHistogram(name, { ...optionsOf(name, description), advice })
      return family(labels, (value, attributes) => histogram.record(value, attributes))
    },
    observe: (refresh) => {
      const observed = gauges.map(({ gauge }) => gauge)
      const callback: OtelBatchCallback = async (result) => {
        await refresh()
        for (const { gauge, values } of gauges)
          for (const [attributes, value] of values) result.observe(gauge, value, attributes)
      }
      meter.addBatchObservableCallback(callback, observed)
      return () => meter.removeBatchObservableCallback(callback, observed)
    },
  }
}

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
