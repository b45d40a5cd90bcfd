import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore } from "@kiln/core/ports"
import {
  claim,
  claimedNumbers,
  create,
  createFailed,
  createUploaded,
  exists,
  first,
  read,
  readUpload,
} from "../arrange.ts"
import { jobId, newJob, newUploadJob, uploadId } from "../fixtures.ts"
import type { CallerCheck } from "./CallerTransaction.ts"

/** The caller's commit and rollback decide whether jobs exist. */
export const ending: ReadonlyArray<CallerCheck> = [
  {
    name: "after a commit the jobs and their uploads are stored, and the jobs can be claimed",
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      yield* createUploaded(1)
      const transaction = yield* begin
      const items = [newUploadJob(1), newJob(2, { priority: "high", metadata: { model: "small" }, delayMs: 0 })]
      const outcomes = yield* transaction.createJobs(...items)
      expect(outcomes.map(({ _tag }) => _tag)).toEqual(["Created", "Created"])
      for (const item of items) expect(yield* exists(item)).toBe(false)
      yield* transaction.commit
      const jobs = yield* Effect.forEach(items, read)
      expect(outcomes).toEqual(jobs.map((job) => ({ _tag: "Created", job })))
      expect((yield* readUpload(1)).jobId).toBe(jobId(1))
      expect(new Set(claimedNumbers(yield* claim()))).toEqual(new Set([1, 2]))
    }),
  },
  {
    name: "several calls belong to one transaction",
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      const kept = yield* begin
      yield* kept.createJobs(newJob(1))
      yield* kept.createJobs()
      yield* kept.createJobs(newJob(2), newJob(3))
      yield* kept.commit
      const dropped = yield* begin
      yield* dropped.createJobs(newJob(4))
      yield* dropped.createJobs(newJob(5))
      yield* dropped.rollback
      const there = yield* Effect.forEach([1, 2, 3, 4, 5], (n) => exists(newJob(n)))
      expect(there).toEqual([true, true, true, false, false])
    }),
  },
  {
    name: "after a rollback there is no job, no upload is used up, and the idempotency key is free",
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      const store = yield* JobStore
      const upload = yield* createUploaded(1)
      const transaction = yield* begin
      const outcomes = yield* transaction.createJobs(newUploadJob(1), newJob(2))
      expect(outcomes.map(({ _tag }) => _tag)).toEqual(["Created", "Created"])
      yield* transaction.rollback
      for (const item of [newUploadJob(1), newJob(2)]) {
        expect(yield* exists(item)).toBe(false)
        expect(yield* store.findByIdempotencyKey(item.keyId, item.idempotencyKey)).toBe(undefined)
      }
      expect(yield* readUpload(1)).toEqual(upload)
      expect(yield* claim()).toEqual({ claims: [], abandoned: [], nextInMs: undefined })
      yield* create(newUploadJob(1), newJob(2, { queueCap: 2 }))
      expect(new Set(claimedNumbers(yield* claim()))).toEqual(new Set([1, 2]))
    }),
  },
  {
    name: "a retry takes the upload over exactly if the transaction commits",
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      yield* createUploaded(1)
      const failed = yield* createFailed(newUploadJob(1))
      const retry = newUploadJob(2, { retryOf: failed.id, uploadId: uploadId(1) })
      const dropped = yield* begin
      expect(first(yield* dropped.createJobs(retry))._tag).toBe("Created")
      yield* dropped.rollback
      expect(yield* read(failed)).toEqual(failed)
      expect((yield* readUpload(1)).jobId).toBe(failed.id)
      const kept = yield* begin
      expect(first(yield* kept.createJobs(retry))._tag).toBe("Created")
      yield* kept.commit
      expect(yield* read(failed)).toEqual({ ...failed, uploadId: null })
      expect((yield* readUpload(1)).jobId).toBe(jobId(2))
    }),
  },
]
