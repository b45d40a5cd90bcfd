import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { JobStore, KeyDirectory, Switchboard, UploadStore } from "@kiln/core/ports"
import type { Stores } from "./Check.ts"
import {
  audioGate,
  completionOf,
  jobId,
  newApiKey,
  newJob,
  newUpload,
  noLimits,
  outputFile,
  ownerOf,
  projectId,
  record,
  standings,
  uploadedFile,
  uploadId,
} from "./fixtures.ts"

const runnable = (["sandbox", "live"] as const).map((mode) => ({ kind: "speech_synthesis", kindVersion: 1, mode }))

const arrangeBoard = Effect.gen(function* () {
  const keys = yield* KeyDirectory
  const board = yield* Switchboard
  yield* keys.createProject({ id: projectId(1), name: "one" })
  yield* keys.createKey(newApiKey(1))
  yield* keys.createKey(newApiKey(2))
  yield* keys.revokeKey(newApiKey(2).id)
  for (const name of ["ai", "audio"] as const) yield* board.setSwitch(name, true)
  yield* board.setPrice({ name: audioGate.price, currency: "usd", unitAmounts: { input_characters: "0.1" } })
  yield* board.setPrice({ name: audioGate.price, currency: "usd", unitAmounts: { input_characters: "0.2" } })
  yield* board.activatePrice(audioGate.price, true)
  yield* board.pauseKind("image_generation", true)
  yield* board.publishWorker({
    workerId: "w",
    liveKinds: ["speech_synthesis"],
    providers: standings,
    ttlMs: 86_400_000,
  })
})

const arrangeUploads = Effect.gen(function* () {
  const uploads = yield* UploadStore
  yield* uploads.createUploads([newUpload(6, { usableForMs: 0 })])
  yield* uploads.expireUploads(10)
  yield* uploads.createUploads([1, 2, 3, 4, 5].map((n) => newUpload(n)))
  for (const n of [1, 3, 4, 5]) {
    yield* uploads.claimUpload({ uploadId: uploadId(n), leaseDurationMs: 60_000, maxTransfers: 5 })
    if (n !== 5) yield* uploads.completeUpload({ uploadId: uploadId(n), token: 1, file: uploadedFile(uploadId(n), 1) })
  }
})

const createAndClaim = Effect.fnUntraced(function* (n: number, live = false, upload: number | null = null) {
  const jobs = yield* JobStore
  const options = {
    uploadId: upload === null ? null : uploadId(upload),
    ...(upload === null ? {} : { request: { input: "a long request ".repeat(100) } }),
    ...(live ? { mode: "live" as const, gate: audioGate } : {}),
  }
  yield* jobs.createJobs([newJob(n, options)])
  const {
    claims: [claimed],
  } = yield* jobs.claimJobs({ runnable, limits: noLimits, limit: 1, leaseDurationMs: 60_000, maxLostWorkers: 3 })
  if (claimed === undefined) throw new Error(`job ${n} was not claimed`)
  return claimed
})

/**
 * Brings an empty store to one job in every state, by the verbs themselves. Jobs: 1 queued, 2 held with
 * a checkpoint, 3 waiting after a failure that left a record, 4 done with a file, 5 failed with a record, 6 live and done, 7 live and
 * held, 8 done with upload 1 and a long request, 9 erased, 10 queued with upload 4. Uploads: 2 announced, 3 arrived,
 * 5 in transfer, 6 erased. Jobs 11 and 12 are urgent: delayed, and canceled. One kind is paused.
 */
export const arrangeEveryState: Effect.Effect<void, StoreUnavailable, Stores> = Effect.gen(function* () {
  const jobs = yield* JobStore
  yield* arrangeBoard
  yield* arrangeUploads
  const two = yield* createAndClaim(2)
  yield* jobs.checkpointJobs([{ jobId: jobId(2), token: two.token, step: "reply", value: "text" }])
  const { token } = yield* createAndClaim(3)
  const four = yield* createAndClaim(4)
  yield* jobs.completeJobs([completionOf(four, { files: [outputFile(four, 4)] })])
  yield* jobs.failJobs([
    { jobId: jobId(5), token: (yield* createAndClaim(5)).token, errorCode: "content_rejected", record },
  ])
  yield* jobs.completeJobs([completionOf(yield* createAndClaim(6, true))])
  yield* createAndClaim(7, true)
  yield* jobs.completeJobs([completionOf(yield* createAndClaim(8, false, 1))])
  yield* jobs.completeJobs([completionOf(yield* createAndClaim(9))])
  yield* jobs.eraseJobs([{ jobId: jobId(9), principal: ownerOf(newJob(9)) }])
  yield* jobs.deferJobs([{ jobId: jobId(3), token, delayMs: 60_000, countsAsFailure: true, record }])
  yield* jobs.createJobs([newJob(10, { uploadId: uploadId(4) }), newJob(1)])
  yield* jobs.createJobs([11, 12].map((n) => newJob(n, { priority: "urgent", delayMs: 60_000, metadata: { n } })))
  yield* jobs.cancelJobs([jobId(12)])
})
