import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type FencedOutcome, JobStore, type TransferRef, UploadStore } from "@kiln/core/ports"
import {
  advance,
  beginTransfer,
  create,
  createDone,
  createUpload,
  createUploaded,
  first,
  readUpload,
} from "../arrange.ts"
import { check, type Check, type Section } from "../Check.ts"
import {
  jobId,
  leaseDurationMs,
  maxTransfers,
  newUpload,
  newUploadJob,
  ownerOf,
  uploadedFile,
  uploadId,
} from "../fixtures.ts"

/** A verb that only the running transfer may use. */
const transferVerbs: ReadonlyArray<{
  readonly name: string
  readonly ends: boolean
  readonly run: (transfer: TransferRef) => Effect.Effect<FencedOutcome | "UploadsFull", unknown, UploadStore>
}> = [
  {
    name: "extendUpload",
    ends: false,
    run: (ref) => Effect.flatMap(UploadStore, (store) => store.extendUpload({ ...ref, leaseDurationMs: 99_000 })),
  },
  {
    name: "completeUpload",
    ends: true,
    run: (ref) =>
      Effect.flatMap(UploadStore, (store) =>
        store.completeUpload({ ...ref, file: uploadedFile(ref.uploadId, ref.token) }),
      ),
  },
  { name: "releaseUpload", ends: true, run: (ref) => Effect.flatMap(UploadStore, (store) => store.releaseUpload(ref)) },
]

const expectLost = Effect.fnUntraced(function* (run: (typeof transferVerbs)[number]["run"], token: number) {
  const before = yield* readUpload(1)
  expect(yield* run({ uploadId: uploadId(1), token })).toBe("LeaseLost")
  expect(yield* readUpload(1)).toEqual(before)
})

const fencingOf = ({ name, run }: (typeof transferVerbs)[number]): ReadonlyArray<Check> => [
  check(
    `${name}: needs a running transfer and its very token`,
    Effect.gen(function* () {
      expect(yield* run({ uploadId: uploadId(1), token: 1 })).toBe("LeaseLost")
      yield* createUpload(newUpload(1))
      for (const token of [0, 1]) yield* expectLost(run, token)
      const token = yield* beginTransfer(1)
      for (const wrong of [token - 1, token + 1]) yield* expectLost(run, wrong)
      expect(yield* run({ uploadId: uploadId(1), token })).toBe("Written")
    }),
  ),

  check(
    `${name}: a lease that ended loses nothing until another transfer begins`,
    Effect.gen(function* () {
      yield* createUpload(newUpload(1))
      const token = yield* beginTransfer(1)
      yield* advance(leaseDurationMs + 1)
      expect(yield* run({ uploadId: uploadId(1), token })).toBe("Written")
    }),
  ),

  check(
    `${name}: a transfer that was taken over writes nothing, its successor does`,
    Effect.gen(function* () {
      yield* createUpload(newUpload(1))
      const loser = yield* beginTransfer(1)
      yield* advance(leaseDurationMs)
      const winner = yield* beginTransfer(1)
      yield* expectLost(run, loser)
      expect(yield* run({ uploadId: uploadId(1), token: winner })).toBe("Written")
    }),
  ),

  ...transferVerbs
    .filter(({ ends }) => ends)
    .map((ending) =>
      check(
        `${name}: a transfer that was taken over writes nothing after ${ending.name} of its successor either`,
        Effect.gen(function* () {
          yield* createUpload(newUpload(1))
          const loser = yield* beginTransfer(1)
          yield* advance(leaseDurationMs)
          expect(yield* ending.run({ uploadId: uploadId(1), token: yield* beginTransfer(1) })).toBe("Written")
          yield* expectLost(run, loser)
        }),
      ),
    ),

  check(
    `${name}: a transfer that was given up writes nothing once another has begun`,
    Effect.gen(function* () {
      const store = yield* UploadStore
      yield* createUpload(newUpload(1))
      const token = yield* beginTransfer(1)
      yield* store.releaseUpload({ uploadId: uploadId(1), token })
      yield* beginTransfer(1)
      yield* expectLost(run, token)
    }),
  ),

  ...transferVerbs
    .filter(({ ends }) => ends)
    .map((ending) =>
      check(
        `${name}: ${name === ending.name ? "written already" : "not"} after ${ending.name}`,
        Effect.gen(function* () {
          yield* createUpload(newUpload(1))
          const token = yield* beginTransfer(1)
          expect(yield* ending.run({ uploadId: uploadId(1), token })).toBe("Written")
          for (const wrong of [token - 1, token + 1]) yield* expectLost(run, wrong)
          if (name !== ending.name) return yield* expectLost(run, token)
          const before = yield* readUpload(1)
          yield* advance(leaseDurationMs)
          expect(yield* run({ uploadId: uploadId(1), token })).toBe("Written")
          expect(yield* readUpload(1)).toEqual(before)
        }),
      ),
    ),

  check(
    `${name}: not after the upload was erased or its record removed`,
    Effect.gen(function* () {
      const store = yield* UploadStore
      yield* createUpload(newUpload(1, { usableForMs: 10 }))
      const token = yield* beginTransfer(1)
      yield* advance(10)
      yield* store.expireUploads(10)
      yield* expectLost(run, token)
      yield* store.deleteUploads(0, 10)
      expect(yield* run({ uploadId: uploadId(1), token })).toBe("LeaseLost")
      expect(yield* store.findUpload(uploadId(1))).toBe(undefined)
    }),
  ),
]

export const transfers: Section = {
  name: "UploadStore.extendUpload, completeUpload, releaseUpload",
  checks: [
    ...transferVerbs.flatMap(fencingOf),

    check(
      "extending moves the lease's end, to the millisecond",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1))
        const token = yield* beginTransfer(1)
        const before = yield* readUpload(1)
        const begins = Effect.map(
          store.claimUpload({ uploadId: uploadId(1), leaseDurationMs, maxTransfers }),
          (outcome) => outcome._tag,
        )
        yield* advance(leaseDurationMs - 1)
        yield* store.extendUpload({ uploadId: uploadId(1), token, leaseDurationMs: 5_000 })
        expect(yield* readUpload(1)).toEqual({ ...before, claimedUntil: leaseDurationMs + 4_999 })
        yield* advance(4_999)
        expect(yield* begins).toBe("Refused")
        yield* advance(1)
        expect(yield* begins).toBe("Claimed")
      }),
    ),

    check(
      "completing assigns the file to the upload, and ends the transfer",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1))
        const token = yield* beginTransfer(1)
        const before = yield* readUpload(1)
        const file = uploadedFile(uploadId(1), token)
        yield* store.completeUpload({ uploadId: uploadId(1), token, file })
        expect(yield* readUpload(1)).toEqual({ ...before, file, claimedUntil: null })
      }),
    ),

    check(
      "after a release another transfer may begin immediately, with a higher token",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1))
        const token = yield* beginTransfer(1)
        yield* store.releaseUpload({ uploadId: uploadId(1), token })
        expect(yield* readUpload(1)).toMatchObject({ claimedUntil: null, transfers: 1, file: null })
        expect(yield* beginTransfer(1)).toBeGreaterThan(token)
      }),
    ),

    check(
      "of several concurrent completions one is written, and all with the same blob get `Written`",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1))
        const token = yield* beginTransfer(1)
        const outcomes = yield* Effect.forEach(
          [1, 2, 3],
          (n) =>
            store.completeUpload({
              uploadId: uploadId(1),
              token,
              file: { ...uploadedFile(uploadId(1), token), bytes: n },
            }),
          { concurrency: "unbounded" },
        )
        expect(outcomes).toEqual(["Written", "Written", "Written"])
        expect([1, 2, 3]).toContain((yield* readUpload(1)).file?.bytes)
      }),
    ),

    check(
      "a completion with another blob is not a repeat",
      Effect.gen(function* () {
        const store = yield* UploadStore
        const { file, token } = yield* createUploaded(1)
        const other = uploadedFile(uploadId(1), token + 1)
        expect(yield* store.completeUpload({ uploadId: uploadId(1), token, file: other })).toBe("LeaseLost")
        expect((yield* readUpload(1)).file).toEqual(file)
      }),
    ),

    check(
      "a repeated completion is recognized while a job uses the file, and restores nothing once it is erased",
      Effect.gen(function* () {
        const store = yield* UploadStore
        const { token } = yield* createUploaded(1)
        const again = store.completeUpload({
          uploadId: uploadId(1),
          token,
          file: uploadedFile(uploadId(1), token),
        })
        const done = yield* createDone(newUploadJob(1))
        const used = yield* readUpload(1)
        expect(yield* again).toBe("Written")
        expect(yield* readUpload(1)).toEqual(used)
        yield* (yield* JobStore).eraseJobs([{ jobId: done.id, principal: ownerOf(done) }])
        const erased = yield* readUpload(1)
        expect(erased).toMatchObject({ file: null, erased: true })
        expect(yield* again).toBe("LeaseLost")
        expect(yield* store.releaseUpload({ uploadId: uploadId(1), token })).toBe("LeaseLost")
        expect(yield* readUpload(1)).toEqual(erased)
      }),
    ),

    check(
      "a job can use a finished transfer",
      Effect.gen(function* () {
        yield* createUploaded(1)
        expect(first(yield* create(newUploadJob(1))).id).toBe(jobId(1))
      }),
    ),
  ],
}
