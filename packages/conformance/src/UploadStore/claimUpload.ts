import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { UploadStore } from "@kiln/core/ports"
import { advance, beginTransfer, create, createUpload, createUploaded, readUpload } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { leaseDurationMs, maxTransfers, newUpload, newUploadJob, uploadedFile, uploadId } from "../fixtures.ts"

const claimUpload = Effect.fnUntraced(function* (n: number, transfers = maxTransfers) {
  const store = yield* UploadStore
  return yield* store.claimUpload({ uploadId: uploadId(n), leaseDurationMs, maxTransfers: transfers })
})

export const claimUploadSection: Section = {
  name: "UploadStore.claimUpload",
  checks: [
    check(
      "begins a transfer under a lease and a token",
      Effect.gen(function* () {
        const before = yield* createUpload(newUpload(1))
        yield* advance(100)
        const upload = { ...before, token: 1, transfers: 1, claimedUntil: 100 + leaseDurationMs }
        expect(yield* claimUpload(1)).toEqual({ _tag: "Claimed", token: 1, upload })
        expect(yield* readUpload(1)).toEqual(upload)
        expect(yield* claimUpload(2)).toEqual({ _tag: "NotFound" })
      }),
    ),

    check(
      "one runs at a time, until its lease ends, to the millisecond",
      Effect.gen(function* () {
        yield* createUpload(newUpload(1))
        yield* beginTransfer(1)
        const before = yield* readUpload(1)
        yield* advance(leaseDurationMs - 1)
        expect(yield* claimUpload(1)).toEqual({ _tag: "Refused", reason: "in_progress" })
        expect(yield* readUpload(1)).toEqual(before)
        yield* advance(1)
        expect(yield* claimUpload(1)).toMatchObject({ _tag: "Claimed", token: 2, upload: { transfers: 2 } })
      }),
    ),

    check(
      "of many concurrent transfers, one begins",
      Effect.gen(function* () {
        yield* createUpload(newUpload(1))
        const outcomes = yield* Effect.forEach(Array.from({ length: 50 }), () => claimUpload(1), {
          concurrency: "unbounded",
        })
        expect(outcomes.filter(({ _tag }) => _tag === "Claimed")).toHaveLength(1)
        expect(yield* readUpload(1)).toMatchObject({ token: 1, transfers: 1 })
      }),
    ),

    check(
      "no transfer after one succeeded, used by a job or not, erased or not",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUploaded(1)
        const refused = { _tag: "Refused", reason: "already_completed" }
        expect(yield* claimUpload(1)).toEqual(refused)
        yield* create(newUploadJob(1))
        expect(yield* claimUpload(1)).toEqual(refused)
        yield* createUploaded(2, { usableForMs: 10 })
        yield* advance(10)
        yield* store.expireUploads(10)
        expect(yield* claimUpload(2)).toEqual({ _tag: "Refused", reason: "expired" })
      }),
    ),

    check(
      "no more transfers than allowed, counting those that began",
      Effect.gen(function* () {
        const store = yield* UploadStore
        yield* createUpload(newUpload(1))
        for (let n = 1; n <= 3; n++) {
          const outcome = yield* claimUpload(1, 3)
          expect(outcome).toMatchObject({ _tag: "Claimed", token: n, upload: { transfers: n } })
          if (n < 3) expect(yield* store.releaseUpload({ uploadId: uploadId(1), token: n })).toBe("Written")
        }
        expect(yield* claimUpload(1, 3)).toEqual({ _tag: "Refused", reason: "in_progress" })
        yield* store.releaseUpload({ uploadId: uploadId(1), token: 3 })
        expect(yield* claimUpload(1, 3)).toEqual({ _tag: "Refused", reason: "expired" })
        expect(yield* claimUpload(1, 4)).toMatchObject({ _tag: "Claimed", token: 4 })
      }),
    ),

    check(
      "with none allowed, none begins, and the reason is reported: running, to the millisecond, or completed",
      Effect.gen(function* () {
        const store = yield* UploadStore
        const expectRefused = Effect.fnUntraced(function* (reason: string) {
          const before = yield* readUpload(1)
          expect(yield* claimUpload(1, 0)).toEqual({ _tag: "Refused", reason })
          expect(yield* readUpload(1)).toEqual(before)
        })
        yield* createUpload(newUpload(1))
        yield* expectRefused("expired")
        const token = yield* beginTransfer(1)
        yield* advance(leaseDurationMs - 1)
        yield* expectRefused("in_progress")
        yield* advance(1)
        yield* expectRefused("expired")
        yield* store.completeUpload({ uploadId: uploadId(1), token, file: uploadedFile(uploadId(1), token) })
        yield* expectRefused("already_completed")
        expect(yield* claimUpload(2, 0)).toEqual({ _tag: "NotFound" })
      }),
    ),
  ],
}
