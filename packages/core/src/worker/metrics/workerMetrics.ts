import * as Effect from "effect/Effect"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import type { MetricFamilies } from "./MetricFamilies.ts"
import type { Worker } from "../Worker.ts"

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
