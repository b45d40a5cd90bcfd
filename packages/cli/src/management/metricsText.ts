import * as Effect from "effect/Effect"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { statfs } from "node:fs/promises"
import type { Worker } from "@kiln/core/worker"
import { Readiness } from "@kiln/http"
import type { Settings } from "../Settings.ts"
import { localDirectories } from "../settings/localDirectories.ts"
import { backupMeasurement } from "../telemetry/backupMetrics.ts"
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

const size = gauge("kiln_disk_size_bytes", "Size of the file system of a directory that kiln writes to", "directory")
const free = gauge(
  "kiln_disk_free_bytes",
  "Bytes that kiln may still write to the file system of a directory",
  "directory",
)

/** Milliseconds to wait for a file system, which may be on a network. */
const limitMs = 1_000

/** Returns the effect that reads the room on the disks of these directories. A directory that cannot be read keeps its last values. */
const measureDisks = (directories: ReadonlyArray<string>): Effect.Effect<void> =>
  Effect.forEach(
    directories,
    (directory) =>
      Effect.tryPromise(() => statfs(directory)).pipe(
        Effect.map(({ bavail, blocks, bsize }) => {
          size.record([directory], blocks * bsize)
          free.record([directory], bavail * bsize)
        }),
        Effect.timeoutOption(limitMs),
        Effect.ignore,
      ),
    { concurrency: "unbounded", discard: true },
  )
