import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { AttemptMeter, BackgroundMeter, type Worker } from "@kiln/core/worker"
import { HttpObserver, Readiness } from "@kiln/http"
import type { makeAccessLog } from "../logs/accessLog.ts"
import { ProcessIo } from "../ProcessIo.ts"
import type { Settings } from "../Settings.ts"
import { attemptMeter, countJobs, meterOfBackground } from "../telemetry/engineMetrics.ts"
import { makeHttpObserver } from "../telemetry/httpMetrics.ts"
import { measureProcess } from "../telemetry/processMetrics.ts"
import { version } from "../version.ts"
import { serveManagement } from "./managementServer.ts"
import { gaugeRefresh, metricsText } from "./metricsText.ts"
import { openDashboard } from "./openDashboard.ts"

/** Milliseconds between refreshes of the gauges for the exporter of metrics. Prometheus refreshes them by reading them. */
const refreshMs = 15_000

/** Measures this process until the scope closes, and serves the management port, if there is one. */
export const measure = Effect.fnUntraced(function* (
  settings: Settings,
  log: Effect.Success<typeof makeAccessLog> | undefined,
  isExported: boolean,
) {
  const { management } = settings
  let worker: Worker["Service"] | undefined
  yield* measureProcess(version)
  yield* countJobs
  const refresh = yield* gaugeRefresh(() => worker, settings)
  if (management !== undefined) {
    const { environment } = yield* ProcessIo
    yield* serveManagement(management, {
      metrics: metricsText(refresh),
      readiness: (yield* Readiness).report,
      dashboard: management.dashboard ? yield* openDashboard(management, environment, version) : undefined,
    })
  }
  if (isExported) yield* Effect.forkScoped(Effect.repeat(refresh, Schedule.spaced(refreshMs)))
  return {
    observers: Context.make(HttpObserver, makeHttpObserver(log)).pipe(
      Context.add(AttemptMeter, attemptMeter),
      Context.add(BackgroundMeter, meterOfBackground),
    ),
    attach: (running: Worker["Service"]) => void (worker = running),
  }
})
