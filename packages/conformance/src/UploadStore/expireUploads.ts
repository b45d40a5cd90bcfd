import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { uploadBlobPrefix } from "@kiln/core/domain"
import { UploadStore } from "@kiln/core/ports"
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
import { newUpload, newUploadJob, uploadedFile, uploadId, usableForMs } from "../fixtures.ts"

const purgesOf = (...numbers: ReadonlyArray<number>) =>
  numbers.map((n) => ({ blobPrefix: uploadBlobPrefix(uploadId(n)) }))

/** Unused uploads expire; the upload of an unfinished job never does. */
export const expireUploads: Section = {
  name: "UploadStore.expireUploads",
  checks: [
    check(
      "erases an upload that no job used in time, to the millisecond",
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
      "also one without a file, or one being transferred",
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
      "never erases an upload that a job uses, queued, running or done",
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
