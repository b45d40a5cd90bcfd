import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { uploadBlobKey, uploadBlobPrefix } from "@kiln/core/domain"
import { JobStore, UploadStore } from "@kiln/core/ports"
import {
  advance,
  beginTransfer,
  complete,
  create,
  createAndClaim,
  createUpload,
  createUploaded,
  duePurges,
  readUpload,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { leaseDurationMs, newUpload, newUploadJob, ownerOf, uploadedFile, uploadId, usableForMs } from "../fixtures.ts"

const purgesOf = (...numbers: ReadonlyArray<number>) =>
  numbers.map((n) => ({ blobPrefix: uploadBlobPrefix(uploadId(n)) }))

/** Uploads nobody came for go; those of a job never while it is unfinished. */
export const expireUploads: Section = {
  name: "UploadStore.expireUploads",
  checks: [
    check(
      "erases an upload no job came for in time, to the millisecond",
      Effect.gen(function* () {
        const store = yield* UploadStore
        const before = yield* createUploaded(1)
        yield* advance(usableForMs - 1)
        expect(yield* store.expireUploads(10)).toEqual({ count: 0, purges: [] })
        expect(yield* readUpload(1)).toEqual(before)
        yield* advance(1)
        expect(yield* store.expireUploads(10)).toEqual({ count: 1, purges: purgesOf(1) })
        expect(yield* readUpload(1)).toEqual({ ...before, file: null, erased: true })
        expect(yield* duePurges).toEqual([uploadBlobPrefix(uploadId(1))])
        expect(yield* store.expireUploads(10)).toEqual({ count: 0, purges: [] })
      }),
    ),

    check(
      "one that never got a file, or is getting one, too",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1, { usableForMs: 10 }))
        yield* createUpload(newUpload(2, { usableForMs: 10 }))
        yield* beginTransfer(2)
        yield* advance(10)
        expect((yield* store.expireUploads(10)).count).toBe(2)
        for (const n of [1, 2])
          expect(yield* readUpload(n)).toMatchObject({ erased: true, file: null, claimedUntil: null })
      }),
    ),

    check(
      "never one that a job uses, queued, running or done",
      Effect.gen(function* () {
        const store = yield* UploadStore
        for (const n of [1, 2, 3]) yield* createUploaded(n)
        yield* complete(yield* createAndClaim(newUploadJob(1)))
        yield* createAndClaim(newUploadJob(2), { leaseDurationMs: 10 * usableForMs })
        yield* create(newUploadJob(3))
        yield* advance(2 * usableForMs)
        expect((yield* store.expireUploads(10)).count).toBe(0)
        for (const n of [1, 2, 3])
          expect(yield* readUpload(n)).toMatchObject({ erased: false, file: uploadedFile(uploadId(n), 1) })
      }),
    ),

    check(
      "the longest unusable first, up to the limit",
      Effect.gen(function* () {
        const store = yield* UploadStore
        for (const n of [1, 2, 3]) yield* createUpload(newUpload(n, { usableForMs: 100 - n }))
        yield* advance(1_000)
        expect((yield* store.expireUploads(0)).count).toBe(0)
        expect(yield* store.expireUploads(1)).toEqual({ count: 1, purges: purgesOf(3) })
        expect(new Set((yield* store.expireUploads(5)).purges)).toEqual(new Set(purgesOf(1, 2)))
      }),
    ),
  ],
}

export const deleteUploads: Section = {
  name: "UploadStore.deleteUploads",
  checks: [
    check(
      "removes records of erased uploads made long enough ago, to the millisecond",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUploaded(1, { usableForMs: 10 })
        yield* createUploaded(2)
        yield* advance(999)
        yield* store.expireUploads(10)
        expect(yield* store.deleteUploads(1_000, 10)).toBe(0)
        yield* advance(1)
        expect(yield* store.deleteUploads(1_000, 0)).toBe(0)
        expect(yield* store.deleteUploads(1_000, 10)).toBe(1)
        expect(yield* store.findUpload(uploadId(1))).toBe(undefined)
        expect((yield* readUpload(2)).erased).toBe(false)
        expect(yield* duePurges, "its blobs are still due").toEqual([uploadBlobPrefix(uploadId(1))])
      }),
    ),

    check(
      "never one that a job refers to",
      Effect.gen(function* () {
        const store = yield* UploadStore
        const jobs = yield* JobStore
        yield* createUploaded(1)
        const done = yield* complete(yield* createAndClaim(newUploadJob(1)))
        yield* jobs.eraseJobs([{ jobId: done.id, principal: ownerOf(done) }])
        yield* advance(1_000_000)
        expect(yield* store.deleteUploads(0, 10)).toBe(0)
        expect((yield* readUpload(1)).erased).toBe(true)
      }),
    ),

    check(
      "the oldest first, up to the limit",
      Effect.gen(function* () {
        const store = yield* UploadStore
        for (const n of [1, 2, 3]) {
          yield* createUpload(newUpload(n, { usableForMs: 0 }))
          yield* advance(1)
        }
        yield* store.expireUploads(10)
        expect(yield* store.deleteUploads(0, 2)).toBe(2)
        expect(yield* store.findUpload(uploadId(2))).toBe(undefined)
        expect((yield* readUpload(3)).id).toBe(uploadId(3))
      }),
    ),
  ],
}

export const findUploadOrphans: Section = {
  name: "UploadStore.findUploadOrphans",
  checks: [
    check(
      "all but the file and what the running transfer may still commit",
      Effect.gen(function* () {
        const store = yield* UploadStore
        const blobs = [1, 2, 3].map((token) => ({
          blobKey: uploadBlobKey(uploadId(1), token),
          uploadId: uploadId(1),
          token,
        }))
        const orphans = Effect.map(store.findUploadOrphans(blobs), (found) =>
          found.map(({ blobKey, reason }) => `${blobKey.split("/")[2]} ${reason}`),
        )
        expect(yield* orphans).toEqual(["1 unknown", "2 unknown", "3 unknown"])
        yield* createUpload(newUpload(1))
        expect(yield* orphans, "no transfer yet").toEqual(["1 ahead", "2 ahead", "3 ahead"])
        yield* beginTransfer(1)
        expect(yield* orphans).toEqual(["2 ahead", "3 ahead"])
        yield* advance(leaseDurationMs)
        expect(yield* orphans, "a lapsed transfer may still commit").toEqual(["2 ahead", "3 ahead"])
        const token = yield* beginTransfer(1)
        expect(yield* orphans).toEqual(["1 spent", "3 ahead"])
        yield* store.releaseUpload({ uploadId: uploadId(1), token })
        expect(yield* orphans, "released: may not").toEqual(["1 spent", "2 spent", "3 ahead"])
        const last = yield* beginTransfer(1)
        yield* store.completeUpload({ uploadId: uploadId(1), token: last, file: uploadedFile(uploadId(1), last) })
        expect(yield* orphans).toEqual(["1 spent", "2 spent"])
        yield* advance(usableForMs)
        yield* store.expireUploads(10)
        expect(yield* orphans, "erased").toEqual(["1 spent", "2 spent", "3 spent"])
        expect(yield* store.findUploadOrphans([])).toEqual([])
      }),
    ),

    check(
      "a file that a job uses is not expired",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUploaded(1)
        yield* create(newUploadJob(1))
        yield* advance(10 * usableForMs)
        expect(
          yield* store.findUploadOrphans([{ blobKey: uploadBlobKey(uploadId(1), 1), uploadId: uploadId(1), token: 1 }]),
        ).toEqual([])
      }),
    ),
  ],
}
