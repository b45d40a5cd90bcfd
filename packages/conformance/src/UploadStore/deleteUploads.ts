import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { uploadBlobPrefix } from "@kiln/core/domain"
import { JobStore, UploadStore } from "@kiln/core/ports"
import { advance, complete, createAndClaim, createUpload, createUploaded, duePurges, readUpload } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { newUpload, newUploadJob, ownerOf, uploadId } from "../fixtures.ts"

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
      "never removes an upload that a job refers to",
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
