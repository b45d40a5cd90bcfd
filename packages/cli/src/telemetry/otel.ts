import * as Clock from "effect/Clock"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as OtlpLogger from "effect/observability/OtlpLogger"
import * as OtlpMetrics from "effect/observability/OtlpMetrics"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import * as OtlpTracer from "effect/observability/OtlpTracer"
import { toLogRecord } from "../logs/LogRecord.ts"
import type { OtelSettings, Protocol, Signal } from "./otelSettings.ts"
import { safeTracer } from "./safeTracer.ts"

/** Milliseconds between log lines about a collector that does not answer. */
const repeatEveryMs = 60_000
/** Milliseconds for one export. A collector that never answers must not collect requests here. */
const exportLimitMs = 10_000

/** Limits the time of exports, and logs once a minute that they fail: the exporters themselves drop what they cannot send in silence. */
export const reportingClient = (client: HttpClient.HttpClient): HttpClient.HttpClient => {
  let loggedAt = -Infinity
  const report = (why: string) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (now - loggedAt < repeatEveryMs) return Effect.void
      loggedAt = now
      return Effect.logWarning(`telemetry cannot be exported: ${why}`)
    })
  const late = `no response within ${exportLimitMs / 1_000} s`
  return client.pipe(
    HttpClient.transformResponse(
      // A defect, because the exporters would repeat a request that timed out.
      Effect.timeoutOrElse({
        duration: exportLimitMs,
        orElse: () => Effect.andThen(report(late), Effect.die(new Error(late))),
      }),
    ),
    HttpClient.tap((response) =>
      response.status < 400 ? Effect.void : report(`the collector responded with HTTP ${response.status}`),
    ),
    HttpClient.tapError((error) => report(error.message)),
  )
}

const layerClient: Layer.Layer<HttpClient.HttpClient> = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(HttpClient.HttpClient, reportingClient),
).pipe(Layer.provide(FetchHttpClient.layer))

const serialization = (protocol: Protocol) =>
  protocol === "http/json" ? OtlpSerialization.layerJson : OtlpSerialization.layerProtobuf

/** Brings a log entry into the form of the other logs: a message, and fields with their names. */
const flattened = (logger: Logger.Logger<unknown, unknown>): Logger.Logger<unknown, void> =>
  Logger.make((options) => {
    const { fields, message } = toLogRecord(options)
    const { error: _, span_id: _span, trace_id: _trace, ...annotations } = fields
    const { fiber } = options
    // The exporter reads annotations from the fiber, and nowhere else.
    const getRef: typeof fiber.getRef = (ref) =>
      (ref as unknown) === References.CurrentLogAnnotations ? (annotations as never) : fiber.getRef(ref)
    const annotated = Object.create(fiber, { getRef: { value: getRef } }) as typeof fiber
    logger.log({ ...options, message, fiber: annotated })
  })

/** Exports what the variables ask for until the scope closes, and then sends the rest. Loaded only if they ask for anything. */
export const layerOtel = (
  { exports, sampler, variables }: OtelSettings,
  resource: {
    readonly serviceVersion: string
    readonly attributes: Readonly<Record<string, unknown>>
  },
): Layer.Layer<never> => {
  const options = { resource: { ...resource, attributes: { ...resource.attributes } } }
  const layers: Readonly<
    Record<Signal, Layer.Layer<never, never, HttpClient.HttpClient | OtlpSerialization.OtlpSerialization>>
  > = {
    TRACES: Layer.effect(
      Tracer.Tracer,
      Effect.map(Tracer.Tracer, (tracer) => safeTracer(tracer, sampler)),
    ).pipe(Layer.provide(OtlpTracer.layerFromConfig(options))),
    METRICS: Layer.effectDiscard(Layer.build(OtlpMetrics.layerFromConfig(options))),
    LOGS: Layer.effect(
      Logger.CurrentLoggers,
      Effect.gen(function* () {
        const others = yield* Logger.CurrentLoggers
        const built = yield* Layer.build(OtlpLogger.layerFromConfig({ ...options, mergeWithExisting: false }))
        const exporting = yield* Effect.provide(Effect.flatMap(Logger.CurrentLoggers, Effect.succeed), built)
        return new Set([...others, ...[...exporting].map(flattened)])
      }),
    ),
  }
  const wanted = [...exports].map(([signal, protocol]) => layers[signal].pipe(Layer.provide(serialization(protocol))))
  return wanted
    .reduce<Layer.Layer<never, never, HttpClient.HttpClient>>((all, each) => Layer.merge(all, each), Layer.empty)
    .pipe(
      Layer.provide(layerClient),
      Layer.provide(Layer.succeed(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: { ...variables } }))),
    )
}
