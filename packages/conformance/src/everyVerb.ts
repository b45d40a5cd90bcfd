import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { withDelivery } from "@kiln/core/rules"
import {
  type Claim,
  type ClaimRequest,
  DeliveryStore,
  JobDirectory,
  JobStore,
  KeyDirectory,
  ScheduleStore,
  SecretStore,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import type { Stores } from "./Check.ts"
import {
  audioGate,
  completionOf,
  digest,
  fileId,
  jobId,
  keyId,
  newApiKey,
  newJob,
  newUpload,
  noLimits,
  ownerOf,
  projectId,
  record,
  uploadedFile,
  uploadId,
} from "./fixtures.ts"

const ask: Omit<ClaimRequest, "runnable"> = { limits: noLimits, limit: 5, leaseDurationMs: 1, maxLostWorkers: 1 }

const refOf = (claim: Claim | undefined) => ({ jobId: claim?.job.id ?? jobId(1), token: claim?.token ?? 0 })

const runningJobs = Effect.gen(function* () {
  const jobs = yield* JobStore
  const principal = ownerOf(newJob(1))
  yield* jobs.createJobs([newJob(100, { queueCap: 1_000 }), newJob(101, { mode: "live", gate: audioGate })])
  yield* jobs.createAndClaimJobs([newJob(103, { queueCap: 1_000 })], { ...ask, runnable: [] })
  yield* jobs.findJobs([{ jobId: jobId(4), principal }])
  yield* jobs.pollJobs([{ jobId: jobId(4), principal }])
  yield* jobs.findByIdempotencyKey(newJob(1).keyId, "idempotency-1")
  yield* jobs.findFile(fileId(4))
  const {
    claims: [one, two, three, four],
  } = yield* jobs.claimJobs({
    ...ask,
    runnable: [
      { kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" },
      { kind: "speech_synthesis", kindVersion: 1, mode: "live" },
    ],
  })
  // Held already, so that its project is at its limit.
  yield* jobs.claimJobs({
    ...ask,
    runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "live" }],
    limits: { perKind: { transcription: 1 }, perProject: 1 },
  })
  yield* jobs.extendLeases([{ ...refOf(one), leaseDurationMs: 5 }])
  yield* jobs.checkpointJobs([{ ...refOf(one), step: "a", value: 1 }])
  yield* jobs.appendChunks([{ ...refOf(one), attempt: 1, first: 0, values: ["a"] }])
  yield* jobs.readChunks([{ jobId: jobId(1), from: 0, limit: 5 }])
  yield* jobs.countChunks(jobId(1))
  yield* jobs.failJobs([{ ...refOf(one), errorCode: "internal_error", record }])
  yield* jobs.deferJobs([{ ...refOf(two), delayMs: 1, countsAsFailure: true, record }])
  yield* jobs.releaseJobs([refOf(three)])
  yield* jobs.signalJobs([{ jobId: jobId(1), name: "approved", value: 1 }])
  yield* jobs.listSignals(jobId(1))
  yield* jobs.completeJobs(four === undefined ? [] : [completionOf(four)])
  // Claims what was released.
  yield* jobs.completeAndClaimJobs(four === undefined ? [] : [completionOf(four)], {
    ...ask,
    runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
  })
  yield* jobs.checkClaims([refOf(one)])
  yield* jobs.createJobs([newJob(102, { delayMs: 60_000, priority: "high", retryOf: jobId(5) })])
  yield* jobs.rescheduleJobs([{ jobId: jobId(102), delayMs: 0 }])
  yield* jobs.cancelJobs([jobId(102)])
  yield* jobs.expireJobs(5)
  yield* jobs.eraseJobs([{ jobId: jobId(4), principal }])
  yield* jobs.listCharges({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 10 })
  yield* jobs.findOrphans([{ blobKey: "a", jobId: jobId(4), token: 1 }])
  yield* jobs.writeLineage((yield* jobs.readLineage).version, "{}")
  yield* jobs.publishRetention({
    publisher: "p",
    program: "a",
    rules: [{ kind: "transcription", dataMs: 1, jobsMs: null }],
    ttlMs: 1,
    graceMs: 1,
  })
  yield* jobs.readRetention
  yield* jobs.postponePurges(yield* jobs.nextPurges(1))
  yield* jobs.hastenPurges
  yield* jobs.confirmPurges(yield* jobs.listPurges(1))
})

const directory = Effect.gen(function* () {
  const jobs = yield* JobDirectory
  const { next } = yield* jobs.listJobs({ limit: 1 })
  const everything = {
    mode: "sandbox",
    kind: "speech_synthesis",
    status: "queued",
    createdFrom: 0,
    createdTo: 1,
  } as const
  yield* jobs.listJobs({ ...everything, projectId: projectId(1), after: next, limit: 1 })
  yield* jobs.countJobs({ finishedWithinMs: 1_000 })
  yield* jobs.countJobs({ finishedWithinMs: 1_000, projectId: projectId(1) })
  yield* jobs.measureQueue({ limit: 1_000 })
  yield* jobs.readJobs([jobId(1)])
  yield* jobs.listAttempts(jobId(1))
  yield* jobs.listWaits([jobId(1)])
  yield* jobs.findPlace(jobId(1))
  yield* jobs.listKinds
  yield* jobs.listFinished({ withinMs: 60_000, limit: 10 })
  yield* jobs.countJobs({ finishedWithinMs: 60_000, unfinished: false })
})

const uploadsAndRetention = Effect.gen(function* () {
  const jobs = yield* JobStore
  const uploads = yield* UploadStore
  yield* uploads.createUploads([newUpload(100)])
  yield* uploads.findUpload(uploadId(1))
  yield* uploads.keptBytes(projectId(1), "sandbox")
  yield* uploads.extendUpload({ uploadId: uploadId(5), token: 1, leaseDurationMs: 1_000 })
  yield* uploads.releaseUpload({ uploadId: uploadId(5), token: 1 })
  yield* uploads.claimUpload({ uploadId: uploadId(5), leaseDurationMs: 1_000, maxTransfers: 5 })
  yield* uploads.completeUpload({ uploadId: uploadId(5), token: 2, file: uploadedFile(uploadId(5), 2) })
  yield* uploads.findUploadOrphans([{ blobKey: "a", uploadId: uploadId(5), token: 1 }])
  yield* uploads.expireUploads(5)
  yield* uploads.deleteUploads(0, 5)
  yield* jobs.expireData(0, 5)
  yield* jobs.deleteJobs(0, 5)
})

const administration = Effect.gen(function* () {
  const keys = yield* KeyDirectory
  const board = yield* Switchboard
  const secrets = yield* SecretStore
  yield* keys.findKey(digest(1))
  yield* keys.touchKeys([{ keyId: keyId(1), usedAt: 1 }])
  yield* keys.identifyKey(digest(1))
  yield* keys.rotateKey({ keyId: keyId(1), secretHash: digest(11), overlapMs: 1_000 })
  yield* keys.createKey(newApiKey(8, { expiresAt: 0 }))
  yield* keys.pruneKeys(projectId(1), 0)
  yield* keys.limitKey(keyId(1), { create: { perMinute: 1, burst: 2 } })
  yield* keys.revokeKey(keyId(1))
  yield* keys.disableProject(projectId(1), true)
  yield* keys.disableProject(projectId(1), false)
  yield* keys.createFirstKey({ id: projectId(2), name: "two" }, newApiKey(3))
  yield* Effect.all([keys.listKeys, keys.listProjects, board.readBoard, board.listPrices, board.listWorkers])
  yield* board.setSwitch("ai", true)
  yield* board.pauseKind("image_generation", true)
  yield* board.pauseKind("image_generation", false)
  yield* board.limitProject(projectId(1), 9)
  yield* board.limitProject(projectId(1), null)
  yield* board.setPrice({ name: "svc-image", currency: "usd", unitAmounts: {} })
  yield* board.activatePrice("svc-image", true)
  yield* board.setSpendCap(projectId(1), { currency: "usd", day: "1", month: null })
  yield* board.listSpending
  yield* board.publishWorker({ workerId: "w", liveKinds: [], providers: [], ttlMs: 1 })
  yield* secrets.getOrCreate("a", Uint8Array.of(1))
  yield* secrets.find("a")
  yield* secrets.replace("a", Uint8Array.of(1), Uint8Array.of(2))
  yield* secrets.remove("a")
  const schedules = yield* ScheduleStore
  yield* schedules.writeSchedule("a", 0, { nextAt: 1, document: "{}" })
  yield* schedules.listSchedules
  yield* schedules.findSchedule("a")
  yield* schedules.nextSchedules(1)
  const deliveries = yield* DeliveryStore
  const jobs = yield* JobStore
  const delivered = newJob(104, { queueCap: 1_000, metadata: withDelivery({}) })
  yield* jobs.createJobs([delivered])
  yield* jobs.cancelJobs([delivered.id])
  yield* deliveries.claimDeliveries({ kinds: [delivered.kind], limit: 1, leaseDurationMs: 1 })
  yield* deliveries.settleDeliveries([
    { jobId: delivered.id, token: 1, retryInMs: 1, counts: false },
    { jobId: delivered.id, token: 2, retryInMs: null, counts: true },
  ])
  yield* deliveries.redeliver([{ jobId: delivered.id, kind: delivered.kind }])
  yield* deliveries.listDeliveries(1)
  yield* deliveries.countDeliveries
})

/** Calls every verb of every store at least once, on what `arrangeEveryState` leaves behind. */
export const callEveryVerb: Effect.Effect<void, StoreUnavailable, Stores> = Effect.gen(function* () {
  yield* runningJobs
  yield* directory
  yield* uploadsAndRetention
  yield* administration
})
