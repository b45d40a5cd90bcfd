import { Effect } from "effect"
import type { JobMode } from "@kiln/core/domain"
import { emptyLineage, encodeLineage, startLineage } from "@kiln/core/worker"
import { JobDirectory, JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"

const { audioGate, completionOf, jobId, newApiKey, newJob, newLiveJob, newUpload, outputFile, ownerOf, uploadedFile } =
  fixtures
const { record, uploadId } = fixtures

const runnable = (["sandbox", "live"] as const).flatMap((mode) =>
  [1, 2].map((kindVersion) => ({ kind: "speech_synthesis", kindVersion, mode })),
)

/** Claims one job, the only one there is to claim. */
const claimOne = (leaseDurationMs: number) =>
  Effect.gen(function* () {
    const { claims } = yield* (yield* JobStore).claimJobs({
      runnable,
      limits: fixtures.noLimits,
      limit: 1,
      leaseDurationMs,
      maxLostWorkers: 3,
    })
    const [claim] = claims
    if (claim === undefined) throw new Error("there was no job to claim")
    return claim
  })

const jobNumbers = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] as const
const liveNumbers = new Set([6, 7])

/** Uploads: 1 and 4 used, 2 announced, 3 arrived, 5 in transfer, 6 erased. */
const seedUploads = Effect.gen(function* () {
  const uploads = yield* UploadStore
  yield* uploads.createUploads([newUpload(6, { usableForMs: 0 })])
  yield* uploads.expireUploads(10)
  yield* uploads.createUploads([1, 2, 3, 4, 5].map((n) => newUpload(n, { declaredSeconds: n / 3 })))
  for (const n of [1, 3, 4, 5]) {
    yield* uploads.claimUpload({ uploadId: uploadId(n), leaseDurationMs: 60_000, maxTransfers: 5 })
    if (n !== 5) yield* uploads.completeUpload({ uploadId: uploadId(n), token: 1, file: uploadedFile(uploadId(n), 1) })
  }
})

const seedBoard = Effect.gen(function* () {
  const keys = yield* KeyDirectory
  const board = yield* Switchboard
  yield* keys.createProject({ id: fixtures.projectId(1), name: "one" })
  yield* keys.createKey(newApiKey(1, { name: 'quo"ted \\ Ünï 🎧' }))
  yield* keys.createKey(newApiKey(2))
  yield* keys.revokeKey(newApiKey(2).id)
  for (const name of ["ai", "audio"] as const) yield* board.setSwitch(name, true)
  for (const amount of ["0.1", "0.2"])
    yield* board.setPrice({ name: audioGate.price, currency: "usd", unitAmounts: { input_characters: amount } })
  yield* board.activatePrice(audioGate.price, true)
  yield* board.publishWorker({ workerId: "w", liveKinds: ["speech_synthesis"], providers: [], ttlMs: 86_400_000 })
  yield* (yield* SecretStore).getOrCreate(
    "fingerprint",
    Uint8Array.from({ length: 32 }, (_, n) => n * 8),
  )
  yield* (yield* JobStore).writeLineage(0, encodeLineage(startLineage(emptyLineage, "n0", 1)))
})

const wait = { reason: "provider", subject: "speech", cause: "quota" } as const

/**
 * One job in every state. 1 queued, 2 held with a checkpoint, a signal and chunks, 3 waiting after a failure with a checkpoint, 4 done with a
 * file, 5 failed, 6 live and done, 7 live and held, 8 done with an upload, 9 erased, 10 queued with an upload, 11 queued,
 * of another version of its kind.
 */
export const seedEveryState = Effect.gen(function* () {
  const jobs = yield* JobStore
  yield* seedBoard
  yield* seedUploads
  const claimed = (n: number, mode: JobMode = "sandbox", upload: number | null = null) =>
    Effect.gen(function* () {
      const request = { input: `"text" ${n} \\u0000 🎧 \u2028` }
      const overrides = { request, uploadId: upload === null ? null : uploadId(upload) }
      yield* jobs.createJobs([mode === "live" ? newLiveJob(n, overrides) : newJob(n, overrides)])
      return yield* claimOne(60_000)
    })
  const keep = (n: number, token: number) =>
    jobs.checkpointJobs([{ jobId: jobId(n), token, step: "reply", value: { text: 'ré\\"ply' } }])
  const two = yield* claimed(2)
  yield* keep(2, two.token)
  yield* jobs.appendChunks([{ jobId: jobId(2), token: two.token, attempt: 1, first: 0, values: ['A\\"da', { n: 1 }] }])
  yield* jobs.signalJobs([{ jobId: jobId(2), name: "approved", value: { by: 'A\\"da' } }])
  const { token } = yield* claimed(3)
  yield* keep(3, token)
  const four = yield* claimed(4)
  yield* jobs.completeJobs([completionOf(four, { files: [outputFile(four, 4)], warningCode: "duration_mismatch" })])
  yield* jobs.failJobs([{ jobId: jobId(5), token: (yield* claimed(5)).token, errorCode: "content_rejected", record }])
  yield* jobs.completeJobs([completionOf(yield* claimed(6, "live"))])
  yield* claimed(7, "live")
  yield* jobs.completeJobs([completionOf(yield* claimed(8, "sandbox", 1))])
  yield* jobs.completeJobs([completionOf(yield* claimed(9))])
  yield* jobs.eraseJobs([{ jobId: jobId(9), principal: ownerOf(newJob(9)) }])
  yield* jobs.deferJobs([{ jobId: jobId(3), token, delayMs: 60_000, countsAsFailure: true, record, wait }])
  yield* jobs.createJobs([newJob(10, { uploadId: uploadId(4) }), newJob(1), newJob(11, { kindVersion: 2 })])
})

/** Everything that can be read through the ports, but what workers publish. */
export const readEverything = Effect.gen(function* () {
  const jobs = yield* JobStore
  const directory = yield* JobDirectory
  const uploads = yield* UploadStore
  const keys = yield* KeyDirectory
  const board = yield* Switchboard
  const secrets = yield* SecretStore
  const owned = jobNumbers.map((n) => ({
    jobId: jobId(n),
    principal: ownerOf(newJob(n, liveNumbers.has(n) ? { mode: "live" } : {})),
  }))
  const { prices, switches } = yield* board.readBoard
  return {
    jobs: yield* jobs.findJobs(owned),
    attempts: yield* Effect.forEach(owned, ({ jobId: id }) => directory.listAttempts(id)),
    waits: yield* directory.listWaits(owned.map(({ jobId: id }) => id)),
    signals: yield* Effect.forEach(owned, ({ jobId: id }) => jobs.listSignals(id)),
    chunks: yield* jobs.readChunks(owned.map(({ jobId: id }) => ({ jobId: id, from: 0, limit: 10 }))),
    charges: (yield* jobs.listCharges({ from: 0, to: Number.MAX_SAFE_INTEGER, after: null, limit: 100 })).entries,
    file: yield* jobs.findFile(fixtures.fileId(4)),
    purges: yield* jobs.listPurges(100),
    uploads: yield* Effect.forEach([1, 2, 3, 4, 5, 6], (n) => uploads.findUpload(uploadId(n))),
    projects: yield* keys.listProjects,
    keys: yield* keys.listKeys,
    key: yield* keys.findKey(newApiKey(1).secretHash),
    prices: yield* board.listPrices,
    board: { prices, switches },
    fingerprint: yield* secrets.getOrCreate("fingerprint", new Uint8Array(32)),
    lineage: (yield* (yield* JobStore).readLineage).document,
  }
})
