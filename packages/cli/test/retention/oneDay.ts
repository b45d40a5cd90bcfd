import { fixtures } from "@kiln/conformance"
import { uploadBlobKey } from "@kiln/core/domain"
import { AuditLog, BlobStore, JobStore, type NewJob, UploadStore } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

const { completionOf, jobId, newJob, newLiveJob, newUpload, newUploadJob, outputFile, ownerOf, uploadId } = fixtures

/** Jobs that every day brings, each with a number of its own. */
export const jobsPerDay = 10
/** Files that every day leaves: of three outputs and three uploads, one of which no job uses. One may belong to the job that is erased. */
export const filesPerDay = 6
export const filesOfJobsPerDay = 4
/** Charged jobs of a day. */
export const chargesPerDay = 2

/** A text that only data of this day contains. */
const canaryOf = (day: number): string => `canary-day-${day};`

/** The days whose canaries a text contains. */
export const daysIn = (text: string): ReadonlyArray<number> => [
  ...new Set(Array.from(text.matchAll(/canary-day-(\d+);/g), ([, day = ""]) => Number(day))),
]

const put = (key: string, day: number) => {
  const content = new TextEncoder().encode(canaryOf(day).repeat(500))
  return Effect.flatMap(BlobStore, (blobs) => blobs.put(key, Stream.succeed(content), { maxBytes: content.length }))
}

/** Four uploads: two are used, one arrives unused, and one never arrives. */
const receiveUploads = Effect.fnUntraced(function* (day: number, numbers: ReadonlyArray<number>) {
  const uploads = yield* UploadStore
  yield* uploads.createUploads(numbers.map((n) => newUpload(n)))
  for (const n of numbers.slice(0, 3)) {
    const { bytes, sha256 } = yield* put(uploadBlobKey(uploadId(n), 1), day)
    yield* uploads.claimUpload({ uploadId: uploadId(n), leaseDurationMs: 60_000, maxTransfers: 5 })
    yield* uploads.completeUpload({
      uploadId: uploadId(n),
      token: 1,
      file: { blobKey: uploadBlobKey(uploadId(n), 1), bytes, sha256 },
    })
  }
})

const runnable = (["speech_synthesis", "transcription"] as const).flatMap((kind) =>
  (["sandbox", "live"] as const).map((mode) => ({ kind, kindVersion: 1, mode })),
)

const runAll = Effect.fnUntraced(function* (day: number) {
  const jobs = yield* JobStore
  const { claims } = yield* jobs.claimJobs({
    runnable,
    limits: fixtures.noLimits,
    limit: 10_000,
    leaseDurationMs: 30_000,
    maxLostWorkers: 3,
  })
  yield* jobs.checkpointJobs(
    claims.map(({ job, token }) => ({ jobId: job.id, token, step: "reply", value: canaryOf(day) })),
  )
  const [failing, ...others] = claims
  if (failing !== undefined)
    yield* jobs.failJobs([{ jobId: failing.job.id, token: failing.token, errorCode: "content_rejected" }])
  const completions = yield* Effect.forEach(others, (claim, index) =>
    Effect.gen(function* () {
      const output = { text: canaryOf(day) }
      if (index >= 3) return completionOf(claim, { output })
      const file = outputFile(claim, Number(claim.job.id.slice(-9)))
      const { bytes, sha256 } = yield* put(file.blobKey, day)
      return completionOf(claim, { output, files: [{ ...file, bytes, sha256 }] })
    }),
  )
  yield* jobs.completeJobs(completions)
})

/** Creates jobs, runs them, erases one as its caller would, and leaves an audit entry. `extra`: more jobs, without files. */
export const oneDay = Effect.fnUntraced(function* (day: number, extra = 0) {
  const jobs = yield* JobStore
  const first = day * jobsPerDay + 1
  const numbers = Array.from({ length: jobsPerDay }, (_, index) => first + index)
  const request = (repeats: number) => ({ request: { input: canaryOf(day).repeat(repeats) } })
  const uploads = numbers.slice(0, 4)
  yield* receiveUploads(day, uploads)
  const ordinary: ReadonlyArray<NewJob> = [
    ...uploads.slice(0, 2).map((n) => newUploadJob(n, request(1))),
    ...numbers.slice(2, 4).map((n) => newLiveJob(n, { gate: null, ...request(1) })),
    // A long one is stored apart.
    ...numbers.slice(4).map((n) => newJob(n, request(n % 2 === 0 ? 300 : 1))),
  ]
  yield* jobs.createJobs(ordinary)
  yield* runAll(day)
  for (let done = 0; done < extra; done += 500) {
    yield* jobs.createJobs(
      Array.from({ length: 500 }, (_, index) => newJob(1_000_000 + day * 10_000 + done + index, request(60))),
    )
    yield* runAll(day)
  }
  const erased = first + 9
  yield* jobs.eraseJobs([{ jobId: jobId(erased), principal: ownerOf(newJob(erased)) }])
  yield* (yield* AuditLog).append({ actor: "user a", origin: "host b", action: "day", subject: null, details: { day } })
})
