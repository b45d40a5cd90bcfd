import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type Worker, WorkerProcess } from "@kiln/core/worker"
import { HttpObserver } from "@kiln/http"
import { type CommandFailed, failed, misused } from "../CommandFailed.ts"
import type { Base } from "../kilnLayer.ts"
import { makeAccessLog } from "../logs/accessLog.ts"
import type { Environment } from "../settings/settingFiles.ts"
import type { Settings } from "../Settings.ts"
import { type OtelSettings, readOtel } from "../telemetry/otelSettings.ts"
import { version } from "../version.ts"

/** Reads the `OTEL_*` variables. Reports all invalid ones at once. */
export const readTelemetry = (environment: Environment): Effect.Effect<OtelSettings | undefined, CommandFailed> => {
  const read = readOtel(environment)
  if (read.ok) return Effect.succeed(read.settings)
  const lines = read.problems.map(({ rule, setting }) => `${setting} ${rule}`)
  return Effect.fail(misused(lines.length === 1 ? lines.join("") : `settings are invalid:\n  ${lines.join("\n  ")}`))
}

/** Runs a service with its traces, metrics and logs exported. Nothing is loaded if nothing is. */
export const withTelemetry = <A, R>(
  telemetry: OtelSettings | undefined,
  role: Settings["role"],
  service: Effect.Effect<A, CommandFailed, R>,
): Effect.Effect<A, CommandFailed, R> =>
  telemetry === undefined
    ? service
    : Effect.gen(function* () {
        const { layerOtel } = yield* Effect.tryPromise({
          try: () => import("../telemetry/otel.ts"),
          catch: (cause) => failed(`cannot load the telemetry exporter: ${String(cause)}`),
        })
        const attributes = { "process.pid": process.pid, "kiln.role": role }
        return yield* Effect.provide(service, layerOtel(telemetry, { serviceVersion: version, attributes }))
      })

/** The meters of a process and the server that exposes them. */
export interface Measuring {
  /** The observers for the parts of the service. */
  readonly observers: Context.Context<never>
  /** Includes the gauges of this worker. */
  readonly attach: (worker: Worker["Service"]) => void
}

/**
 * Begins to measure this process until the scope closes, if a port serves metrics or an exporter sends them. Otherwise, only the
 * access log is prepared, if there is one, and nothing is loaded.
 */
export const startMeasuring = (
  settings: Settings,
  telemetry: OtelSettings | undefined,
): Effect.Effect<Measuring, CommandFailed, Base | Scope.Scope> =>
  Effect.gen(function* () {
    const { management } = settings
    const log = settings.accessLog ? yield* makeAccessLog : undefined
    const process = Context.make(WorkerProcess, yield* workerProcess)
    const isExported = telemetry?.exports.has("METRICS") === true
    if (management === undefined && !isExported)
      return {
        observers: log === undefined ? process : Context.add(process, HttpObserver, { began: () => {}, answered: log }),
        attach: () => {},
      }
    const { measure } = yield* loadMeters
    const { attach, observers } = yield* measure(settings, log, isExported)
    return { observers: Context.merge(process, observers), attach }
  })

const loadMeters = Effect.tryPromise({
  try: () => import("../management/measure.ts"),
  catch: (cause) => failed(`cannot load the management server: ${String(cause)}`),
})

/** Milliseconds between two measurements of the event loop. */
const resolutionMs = 20

/** Measures the event loop of this process until the scope closes, for the state that its worker publishes. */
const workerProcess = Effect.acquireRelease(
  Effect.sync(() => {
    const delays = monitorEventLoopDelay({ resolution: resolutionMs })
    delays.enable()
    return delays
  }),
  (delays) => Effect.sync(() => delays.disable()),
).pipe(
  Effect.map((delays) => ({
    version,
    // Node measures from one turn of its own timer to the next.
    loopLagMs: () => {
      const lagMs = Math.max(0, delays.percentile(99) / 1e6 - resolutionMs)
      delays.reset()
      return Math.round(lagMs * 10) / 10
    },
  })),
)
