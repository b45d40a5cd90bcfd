import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { JobMode } from "../../domain/index.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { installedKinds } from "../../kinds/installedKinds.ts"
import { JobDirectory, type QueueDepth } from "../../ports/index.ts"
import type { Worker } from "../Worker.ts"
import type { MetricFamilies } from "./MetricFamilies.ts"

/** Maximum number of jobs that a measurement counts, so that its cost does not grow with the queue. */
const maxCounted = 100_000

/** Milliseconds for which a measurement is good, however often metrics are read. */
const goodForMs = 5_000

const states = ["ready", "delayed", "retrying", "running"] as const

/**
 * Returns the effect that sets the gauges of the queue. Each process asks the store at most once in five seconds. If the store
 * does not answer, the gauges keep their values, and the time of the measurement shows their age.
 */
export const queueMeasurement = (families: MetricFamilies) =>
  Effect.gen(function* () {
    const jobs = families.gauge(
      "kiln_queue_jobs",
      "Unfinished jobs of the installation by state: ready, delayed, retrying or running. Every process reports the same; use max",
      "kind",
      "mode",
      "state",
    )
    const oldest = families.gauge(
      "kiln_queue_oldest_ready_seconds",
      "Age of the oldest job of the installation that a worker could start; 0 without one. Use max",
      "kind",
      "mode",
    )
    const isPartial = families.gauge(
      "kiln_queue_jobs_is_partial",
      "1 if the queue is longer than what is counted, so that kiln_queue_jobs is a lower bound",
    )
    const measuredAt = families.gauge(
      "kiln_queue_measured_timestamp_seconds",
      "Time of the last measurement of the queue, in Unix seconds",
    )
    const directory = yield* JobDirectory
    const seen = new Map<string, Pick<QueueDepth, "kind" | "mode">>()
    const note = (kind: string, mode: JobMode) => seen.set(`${kind} ${mode}`, { kind, mode })
    for (const { name } of yield* installedKinds) for (const mode of ["live", "sandbox"] as const) note(name, mode)
    const measure = Effect.gen(function* () {
      const depths = yield* directory.measureQueue({ limit: maxCounted })
      for (const { kind, mode } of depths) note(kind, mode)
      const found = new Map(depths.map((depth) => [`${depth.kind} ${depth.mode}`, depth]))
      // A queue that has become empty is at 0, not at its last length.
      for (const [name, { kind, mode }] of seen) {
        const depth = found.get(name)
        for (const state of states) jobs.record([kind, mode, state], depth?.[state] ?? 0)
        oldest.record([kind, mode], (depth?.oldestReadyMs ?? 0) / 1_000)
      }
      const counted = depths.reduce(
        (sum, { delayed, ready, retrying, running }) => sum + ready + delayed + retrying + running,
        0,
      )
      isPartial.record([], counted >= maxCounted ? 1 : 0)
      measuredAt.record([], (yield* Clock.currentTimeMillis) / 1_000)
    })
    return yield* Effect.cachedWithTTL(
      Effect.catchCause(measure, (cause) => Effect.logDebug("could not measure the queue", cause)),
      goodForMs,
    )
  })

/** Returns the function that sets the gauges of this process's worker. */
export const workerMetrics = (families: MetricFamilies) => {
  const running = families.gauge("kiln_worker_jobs_running", "Jobs currently running in this process")
  const concurrency = families.gauge(
    "kiln_worker_concurrency",
    "Maximum number of concurrent live jobs in this process",
  )
  const lastClaim = families.gauge(
    "kiln_worker_last_claim_timestamp_seconds",
    "Time of the store's last response to a claim, in Unix seconds",
  )
  return (worker: Worker["Service"]): Effect.Effect<void> =>
    Effect.gen(function* () {
      running.record([], yield* worker.running)
      concurrency.record([], (yield* EngineConfig).concurrency)
      const claimedAt = yield* worker.lastClaimAt
      if (claimedAt !== undefined) lastClaim.record([], claimedAt / 1_000)
    })
}
