import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, type NewUpload, UploadStore } from "@kiln/core/ports"
import { advance, beginTransfer, create, createDone, createUpload, createUploaded, readUpload } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import {
  leaseDurationMs,
  maxTransfers,
  newUpload,
  newUploadJob,
  ownerOf,
  projectId,
  transferWindowMs,
  uploadedFile,
  uploadId,
  usableForMs,
} from "../fixtures.ts"

/** Returns the outcome for an upload under this cap. */
const outcomeOf = Effect.fnUntraced(function* (n: number, uploads: number, overrides: Partial<NewUpload> = {}) {
  const store = yield* UploadStore
  const [outcome] = yield* store.createUploads([newUpload(n, { cap: { uploads, maxTransfers }, ...overrides })])
  return outcome === "UploadsFull" ? outcome : "Created"
})

const claim = Effect.fnUntraced(function* (n: number, capBytes: number, bytes?: number) {
  const store = yield* UploadStore
  const outcome = yield* store.claimUpload({ uploadId: uploadId(n), leaseDurationMs, maxTransfers, bytes, capBytes })
  return outcome._tag === "Refused" ? outcome.reason : outcome._tag
})

const complete = Effect.fnUntraced(function* (n: number, capBytes: number, bytes: number, token = 1) {
  const store = yield* UploadStore
  const file = { ...uploadedFile(uploadId(n), token), bytes }
  return yield* store.completeUpload({ uploadId: uploadId(n), token, file, capBytes })
})

/** Creates a stored upload of this project with a file of this length. */
const createStored = Effect.fnUntraced(function* (n: number, bytes: number, overrides: Partial<NewUpload> = {}) {
  yield* createUpload(newUpload(n, overrides))
  yield* beginTransfer(n)
  expect(yield* complete(n, 0, bytes)).toBe("Written")
})

export const uploadCaps: Section = {
  name: "UploadStore: caps",
  checks: [
    check(
      "announced, arriving and stored uploads of a project count together against the cap",
      Effect.gen(function* () {
        expect(yield* outcomeOf(1, 3)).toBe("Created")
        yield* createUpload(newUpload(2))
        yield* beginTransfer(2)
        yield* createUploaded(3, { mode: "live" })
        expect(yield* outcomeOf(4, 3)).toBe("UploadsFull")
        expect(yield* (yield* UploadStore).findUpload(uploadId(4))).toBe(undefined)
        expect(yield* outcomeOf(4, 3, { projectId: projectId(2) })).toBe("Created")
        expect(yield* outcomeOf(5, 4)).toBe("Created")
        yield* createUpload(newUpload(6))
      }),
    ),

    check(
      "earlier uploads of a batch count for later ones, and a refused one does not affect the others",
      Effect.gen(function* () {
        const store = yield* UploadStore
        const cap = { uploads: 2, maxTransfers }
        const other = newUpload(4, { cap: { uploads: 1, maxTransfers }, projectId: projectId(2) })
        const outcomes = yield* store.createUploads([
          newUpload(1, { cap }),
          newUpload(2, { cap }),
          newUpload(3, { cap }),
          other,
          newUpload(5),
        ])
        expect(outcomes.map((outcome) => (outcome === "UploadsFull" ? outcome : outcome.id))).toEqual([
          uploadId(1),
          uploadId(2),
          "UploadsFull",
          uploadId(4),
          uploadId(5),
        ])
      }),
    ),

    check(
      "of many concurrent uploads, only as many as the cap allows are created",
      Effect.gen(function* () {
        const numbers = Array.from({ length: 20 }, (_, n) => n)
        const outcomes = yield* Effect.forEach(numbers, (n) => outcomeOf(n, 5), { concurrency: "unbounded" })
        expect(outcomes.filter((outcome) => outcome === "Created")).toHaveLength(5)
      }),
    ),

    check(
      "an upload whose file can no longer arrive stops counting, to the millisecond",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1))
        yield* advance(transferWindowMs - 1)
        expect(yield* outcomeOf(2, 1)).toBe("UploadsFull")
        // The transfer began in time, so the upload counts while it runs.
        const token = yield* beginTransfer(1)
        yield* advance(leaseDurationMs - 1)
        expect(yield* outcomeOf(2, 1)).toBe("UploadsFull")
        yield* advance(1)
        expect(yield* outcomeOf(2, 1)).toBe("Created")
        // A file that still arrives is stored, and counts.
        yield* store.completeUpload({ uploadId: uploadId(1), token, file: uploadedFile(uploadId(1), token) })
        expect(yield* outcomeOf(3, 2)).toBe("UploadsFull")
      }),
    ),

    check(
      "an upload whose transfers are used up stops counting once the last one has ended",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1))
        for (let transfers = 1; transfers <= maxTransfers; transfers++) {
          expect(yield* outcomeOf(2, 1)).toBe("UploadsFull")
          const token = yield* beginTransfer(1)
          expect(yield* outcomeOf(2, 1)).toBe("UploadsFull")
          yield* store.releaseUpload({ uploadId: uploadId(1), token })
        }
        expect(yield* outcomeOf(2, 1)).toBe("Created")
      }),
    ),

    check(
      "a file that was used by a job, expired or erased stops counting",
      Effect.gen(function* () {
        yield* createStored(1, 600)
        expect([yield* outcomeOf(9, 1), yield* outcomeOf(8, 2)]).toEqual(["UploadsFull", "Created"])
        expect(yield* claim(8, 1_000, 401)).toBe("uploads_full")
        yield* create(newUploadJob(1))
        expect(yield* outcomeOf(9, 2)).toBe("Created")
        expect(yield* claim(8, 1_000, 1_000)).toBe("Claimed")
        yield* createStored(2, 600, { usableForMs: 1_000, projectId: projectId(2) })
        yield* advance(999)
        expect(yield* outcomeOf(10, 1, { projectId: projectId(2) })).toBe("UploadsFull")
        yield* advance(1)
        expect(yield* outcomeOf(10, 1, { projectId: projectId(2) })).toBe("Created")
        expect(yield* claim(10, 600, 600)).toBe("Claimed")
      }),
    ),

    check(
      "the file of a job whose data was erased does not count",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        yield* createStored(1, 600)
        const done = yield* createDone(newUploadJob(1))
        yield* jobs.eraseJobs([{ jobId: done.id, principal: ownerOf(done) }])
        expect(yield* outcomeOf(2, 1)).toBe("Created")
        expect(yield* claim(2, 600, 600)).toBe("Claimed")
      }),
    ),

    check(
      "a transfer that would exceed the cap of bytes does not begin, to the byte",
      Effect.gen(function* () {
        yield* createStored(1, 600)
        yield* createUpload(newUpload(2))
        const before = yield* readUpload(2)
        expect(yield* claim(2, 1_000, 401)).toBe("uploads_full")
        expect(yield* readUpload(2)).toEqual(before)
        // A sender that does not announce the length of the file sends at least one byte.
        expect(yield* claim(2, 600)).toBe("uploads_full")
        expect(yield* claim(2, 1_000, 400)).toBe("Claimed")
        expect(yield* claim(2, 600)).toBe("in_progress")
        yield* createUpload(newUpload(3, { projectId: projectId(2) }))
        expect(yield* claim(3, 1_000, 1_000)).toBe("Claimed")
        yield* createUpload(newUpload(4))
        expect(yield* claim(4, 0, 1e9)).toBe("Claimed")
      }),
    ),

    check(
      "a file that would exceed the cap of bytes is not stored, and its transfer can be released",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createStored(1, 600)
        yield* createUpload(newUpload(2))
        yield* beginTransfer(2)
        const before = yield* readUpload(2)
        expect(yield* complete(2, 1_000, 401)).toBe("UploadsFull")
        expect(yield* readUpload(2)).toEqual(before)
        expect(yield* complete(2, 1_000, 401, 7)).toBe("LeaseLost")
        yield* store.releaseUpload({ uploadId: uploadId(2), token: 1 })
        expect(yield* complete(2, 1_000, 401)).toBe("LeaseLost")
        const token = yield* beginTransfer(2)
        expect(yield* complete(2, 1_000, 400, token)).toBe("Written")
        // The file is already stored, whatever the cap is now.
        expect(yield* complete(2, 1, 400, token)).toBe("Written")
      }),
    ),

    check(
      "of many concurrent transfers, no more bytes are stored than the cap allows",
      Effect.gen(function* () {
        const numbers = Array.from({ length: 10 }, (_, n) => n + 1)
        for (const n of numbers) {
          yield* createUpload(newUpload(n, { usableForMs }))
          yield* beginTransfer(n)
        }
        const outcomes = yield* Effect.forEach(numbers, (n) => complete(n, 350, 100), { concurrency: "unbounded" })
        expect(outcomes.filter((outcome) => outcome === "Written")).toHaveLength(3)
        expect(outcomes.filter((outcome) => outcome === "UploadsFull")).toHaveLength(7)
      }),
    ),
  ],
}
