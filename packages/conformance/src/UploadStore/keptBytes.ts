import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, type NewJob, type NewTransfer, UploadStore } from "@kiln/core/ports"
import { advance, claimOne, complete, create, createAndClaim, createUploaded } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import {
  jobId,
  keyId,
  leaseDurationMs,
  maxTransfers,
  newJob,
  newUpload,
  newUploadJob,
  outputFile,
  ownerOf,
  projectId,
  uploadedFile,
  uploadId,
} from "../fixtures.ts"

const kept = (n = 1, mode: "sandbox" | "live" = "sandbox") =>
  Effect.flatMap(UploadStore, (store) => store.keptBytes(projectId(n), mode))

const announce = (...numbers: ReadonlyArray<number>) =>
  Effect.flatMap(UploadStore, (store) => store.createUploads(numbers.map((n) => newUpload(n))))

const begin = (n: number, storage: NewTransfer["storage"]) =>
  Effect.flatMap(UploadStore, (store) =>
    store.claimUpload({ uploadId: uploadId(n), leaseDurationMs, maxTransfers, storage }),
  )

const { bytes: fileBytes } = uploadedFile(uploadId(1), 1)

/** The bytes that projects keep, and their cap. */
export const keptBytes: Section = {
  name: "UploadStore.keptBytes",
  checks: [
    check(
      "counts what a transfer reserves, then its file, until the file is erased",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* announce(1, 2)
        expect(yield* kept()).toEqual({ uploads: 0, files: 0 })
        yield* begin(1, { capBytes: 0, bytes: 500 })
        yield* begin(2, { capBytes: 0, bytes: 70 })
        expect(yield* kept()).toEqual({ uploads: 570, files: 0 })
        yield* store.releaseUpload({ uploadId: uploadId(2), token: 1 })
        expect(yield* kept()).toEqual({ uploads: 500, files: 0 })
        yield* store.extendUpload({ uploadId: uploadId(1), token: 1, leaseDurationMs })
        yield* store.completeUpload({ uploadId: uploadId(1), token: 1, file: uploadedFile(uploadId(1), 1) })
        expect(yield* kept()).toEqual({ uploads: fileBytes, files: 0 })
        const nothing = { uploads: 0, files: 0 }
        expect([yield* kept(2), yield* kept(1, "live")]).toEqual([nothing, nothing])
        yield* advance(newUpload(1).usableForMs)
        yield* store.expireUploads(10)
        expect(yield* kept()).toEqual({ uploads: 0, files: 0 })
        yield* store.deleteUploads(0, 10)
        expect(yield* kept()).toEqual({ uploads: 0, files: 0 })
      }),
    ),

    check(
      "counts the files of finished jobs until they are erased or deleted",
      Effect.gen(function* () {
        const store = yield* JobStore
        for (const n of [1, 2, 3]) {
          const claimed = yield* createAndClaim(newJob(n))
          yield* complete(claimed, { files: [outputFile(claimed, n)] })
        }
        const { bytes } = outputFile({ job: { id: jobId(1) }, token: 1 }, 1)
        expect(yield* kept()).toEqual({ uploads: 0, files: 3 * bytes })
        yield* store.eraseJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])
        expect(yield* kept()).toEqual({ uploads: 0, files: 2 * bytes })
        yield* store.deleteJobs(0, 2)
        yield* store.deleteJobs(0, 10)
        expect(yield* kept()).toEqual({ uploads: 0, files: 0 })
      }),
    ),

    check(
      "an upload is erased with a job that failed by its fault, and with no other",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        for (const [index, errorCode] of (
          ["audio_too_long", "audio_unreadable", "audio_too_short", "provider_unavailable"] as const
        ).entries()) {
          const n = index + 1
          yield* createUploaded(n)
          yield* create(newUploadJob(n))
          const { token } = yield* claimOne()
          yield* jobs.failJobs([{ jobId: jobId(n), token, errorCode }])
          yield* jobs.failJobs([{ jobId: jobId(n), token, errorCode }])
          const isKept = errorCode === "provider_unavailable"
          const upload = yield* (yield* UploadStore).findUpload(uploadId(n))
          expect(upload).toMatchObject({ erased: !isKept, jobId: jobId(n) })
          const prefixes = (yield* jobs.listPurges(100)).map(({ blobPrefix }) => blobPrefix)
          expect(prefixes.some((prefix) => prefix.includes(uploadId(n).slice(4)))).toBe(!isKept)
        }
        const retry = newUploadJob(11, { retryOf: jobId(1), uploadId: uploadId(1) })
        expect(yield* jobs.createJobs([retry])).toEqual([{ _tag: "NotRetryable" }])
        expect(yield* kept()).toEqual({ uploads: fileBytes, files: 0 })
        yield* jobs.eraseJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])
        yield* jobs.deleteJobs(0, 10)
        expect(yield* kept()).toEqual({ uploads: 0, files: 0 })
      }),
    ),

    check(
      "at the cap, jobs that write files are refused, after replays; other jobs are accepted",
      Effect.gen(function* () {
        const store = yield* JobStore
        const tagsOf = (...jobs: ReadonlyArray<NewJob>) =>
          Effect.map(store.createJobs(jobs), (outcomes) => outcomes.map(({ _tag }) => _tag))
        const claimed = yield* createAndClaim(newJob(1, { storageCap: 4_096 }))
        yield* complete(claimed, { files: [outputFile(claimed, 1)] })
        expect(yield* store.createJobs([newJob(2, { storageCap: 4_096 })])).toEqual([
          { _tag: "StorageFull", capBytes: 4_096, kept: { uploads: 0, files: 4_096 } },
        ])
        const again = newJob(1, { storageCap: 4_096 })
        expect(yield* tagsOf(again, newJob(3), newJob(4, { storageCap: 4_097 }), newJob(5, { storageCap: 1 }))).toEqual(
          ["Replayed", "Created", "Created", "StorageFull"],
        )
        expect(yield* tagsOf(newJob(6, { storageCap: 1, projectId: projectId(2), keyId: keyId(2) }))).toEqual([
          "Created",
        ])
        yield* store.eraseJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])
        expect(yield* tagsOf(newJob(7, { storageCap: 4_096 }))).toEqual(["Created"])
      }),
    ),

    check(
      "transfers that begin at once never reserve more than the cap together, uploads and files of jobs included",
      Effect.gen(function* () {
        const claimed = yield* createAndClaim(newJob(1))
        yield* complete(claimed, { files: [outputFile(claimed, 1)] })
        const { files } = yield* kept()
        yield* announce(1, 2, 3, 4, 5, 6)
        const storage = { capBytes: files + 250, bytes: 100 }
        const outcomes = yield* Effect.forEach([1, 2, 3, 4, 5, 6], (n) => begin(n, storage), {
          concurrency: "unbounded",
        })
        const refused = { _tag: "Refused", reason: "storage_full" }
        expect(outcomes.filter(({ _tag }) => _tag === "Claimed")).toHaveLength(2)
        expect(outcomes.filter(({ _tag }) => _tag === "Refused")).toEqual([refused, refused, refused, refused])
        expect(yield* kept()).toEqual({ uploads: 200, files })
        // A refusal is no transfer, and room lets the next begin.
        const store = yield* UploadStore
        const first = outcomes.findIndex(({ _tag }) => _tag === "Claimed") + 1
        yield* store.releaseUpload({ uploadId: uploadId(first), token: 1 })
        const other = outcomes.findIndex(({ _tag }) => _tag === "Refused") + 1
        expect(yield* begin(other, storage)).toMatchObject({ _tag: "Claimed", token: 1 })
        // Others have their own cap.
        yield* store.createUploads([newUpload(9, { projectId: projectId(2), keyId: keyId(2) })])
        expect((yield* begin(9, { capBytes: 100, bytes: 100 }))._tag).toBe("Claimed")
      }),
    ),
  ],
}
