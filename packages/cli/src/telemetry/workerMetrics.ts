import * as Effect from "effect/Effect"
import { EngineConfig } from "@kiln/core/effect"
import type { Worker } from "@kiln/core/worker"
import { gauge } from "./series.ts"

const running = gauge("kiln_worker_jobs_running", "Jobs currently running in this process")
const concurrency = gauge("kiln_worker_concurrency", "Maximum number of concurrent live jobs in this process")
const lastClaim = gauge(
  "kiln_worker_last_claim_timestamp_seconds",
  "Time of the store's last response to a claim, in Unix seconds",
)

/** Sets the gauges of this process's worker. */
export const measureWorker = (worker: Worker["Service"]) =>
  Effect.gen(function* () {
    running.record([], yield* worker.running)
    concurrency.record([], (yield* EngineConfig).concurrency)
    const claimedAt = yield* worker.lastClaimAt
    if (claimedAt !== undefined) lastClaim.record([], claimedAt / 1_000)
  })
