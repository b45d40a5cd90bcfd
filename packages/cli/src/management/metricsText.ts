import * as Effect from "effect/Effect"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import type { Worker } from "@kiln/core/worker"
import { Readiness } from "@kiln/http"
import type { Settings } from "../Settings.ts"
import { localDirectories } from "../settings/localDirectories.ts"
import { backupMeasurement } from "../telemetry/backupMetrics.ts"
import { measureDisks } from "../telemetry/diskMetrics.ts"
import { measureBackground, measureQueue, measureWorker } from "../telemetry/engineMetrics.ts"
import { gauge } from "../telemetry/series.ts"

const ready = gauge("kiln_ready", "1 if every check of /readyz passes")

/** Milliseconds to wait for the store. Without its answer, the gauges that it fills keep their values. */
const storeLimitMs = 2_000

/** Returns the effect that brings all gauges up to date which are not kept so by themselves. */
export const gaugeRefresh = (worker: () => Worker["Service"] | undefined, settings: Settings) =>
  Effect.gen(function* () {
    const readiness = yield* Readiness
    const refreshQueue = yield* measureQueue
    const refreshBackground = yield* measureBackground
    // A Postgres server has backups of its own.
    const refreshBackup = settings.database._tag === "Sqlite" ? yield* backupMeasurement : Effect.void
    const refreshStore = Effect.andThen(Effect.andThen(refreshQueue, refreshBackground), refreshBackup)
    const refreshDisks = measureDisks(localDirectories(settings))
    const context = yield* Effect.context()
    return Effect.gen(function* () {
      const running = worker()
      if (running !== undefined) yield* measureWorker(running)
      const [report] = yield* Effect.all(
        [readiness.report, Effect.timeoutOption(Effect.interruptible(refreshStore), storeLimitMs), refreshDisks],
        { concurrency: "unbounded" },
      )
      ready.record([], report.status === "ready" ? 1 : 0)
    }).pipe(Effect.provide(context))
  })

/** All metrics of this process in Prometheus's text format, after a refresh. */
export const metricsText = (refresh: Effect.Effect<void>): Effect.Effect<string> =>
  Effect.andThen(refresh, PrometheusMetrics.format())
