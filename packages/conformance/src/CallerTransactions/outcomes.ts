import { expect } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { NewJob } from "@kiln/core/ports"
import { create, createUploaded, exists, first, openAudioGate, read } from "../arrange.ts"
import { audioGate, digest, jobId, newJob, newLiveJob, newUploadJob, projectId, uploadId } from "../fixtures.ts"
import { type CallerCheck, createIn } from "./CallerTransaction.ts"

/** An item for each refusal, in a store that has the jobs 1 and 2 and the used upload 2. */
const refused: ReadonlyArray<readonly [string, NewJob]> = [
  ["KeyReused", newJob(11, { idempotencyKey: "idempotency-1", fingerprint: digest(99) })],
  ["NotRetryable", newJob(12, { retryOf: jobId(99) })],
  ["NotRetryable", newJob(13, { retryOf: jobId(1) })],
  ["GateClosed", newLiveJob(14, { gate: { ...audioGate, liveWorker: { kind: "image_generation", withinMs: 1_000 } } })],
  ["UploadRefused", newUploadJob(15, { uploadId: uploadId(2) })],
  ["UploadRefused", newUploadJob(16)],
  ["QueueFull", newJob(17, { queueCap: 2 })],
]

const arrangeRefusals = Effect.gen(function* () {
  yield* openAudioGate
  yield* createUploaded(2)
  return yield* create(newJob(1), newUploadJob(2))
})

/** Decided as `JobStore.createJobs` decides. */
export const outcomes: ReadonlyArray<CallerCheck> = [
  {
    name: "every refusal is an outcome, and the caller's transaction continues",
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      const [job] = yield* arrangeRefusals
      const transaction = yield* begin
      expect(first(yield* transaction.createJobs(newJob(21)))._tag).toBe("Created")
      for (const [tag, item] of refused)
        expect((yield* transaction.createJobs(item)).map(({ _tag }) => _tag)).toEqual([tag])
      const all = yield* transaction.createJobs(newJob(22), ...refused.map(([, item]) => item), newJob(1))
      expect(all.map(({ _tag }) => _tag)).toEqual(["Created", ...refused.map(([tag]) => tag), "Replayed"])
      expect(all.at(-1)).toEqual({ _tag: "Replayed", job })
      expect(all[4]).toEqual({ _tag: "GateClosed", missing: ["provider:image_generation"] })
      expect(all[5]).toEqual({ _tag: "UploadRefused", reason: "already_used" })
      expect(first(yield* transaction.createJobs(newJob(23)))._tag).toBe("Created")
      yield* transaction.commit
      for (const n of [1, 21, 22, 23]) expect(yield* exists(newJob(n)), `job ${n}`).toBe(true)
      for (const [, item] of refused) expect(yield* exists(item), item.id).toBe(false)
    }),
  },
  {
    name: "a repeat is replayed within the transaction, and after its commit",
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      const transaction = yield* begin
      const made = first(yield* transaction.createJobs(newJob(1)))
      if (made._tag !== "Created") throw new Error(`expected Created, got ${made._tag}`)
      const repeat = newJob(2, { idempotencyKey: newJob(1).idempotencyKey, fingerprint: newJob(1).fingerprint })
      expect(yield* transaction.createJobs(repeat, { ...repeat, id: jobId(3), fingerprint: digest(99) })).toEqual([
        { _tag: "Replayed", job: made.job },
        { _tag: "KeyReused", job: made.job },
      ])
      yield* transaction.commit
      const next = yield* begin
      expect(yield* next.createJobs(repeat)).toEqual([{ _tag: "Replayed", job: made.job }])
      yield* next.commit
      expect(yield* read(newJob(1))).toEqual(made.job)
      expect(yield* exists(repeat)).toBe(false)
    }),
  },
  {
    name: "earlier calls in the transaction count: an upload is used once, a queue has its cap",
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      yield* createUploaded(1)
      const transaction = yield* begin
      yield* transaction.createJobs(newUploadJob(1))
      const tags = (yield* transaction.createJobs(
        newUploadJob(2, { uploadId: uploadId(1) }),
        newJob(3, { queueCap: 1 }),
        newJob(4, { queueCap: 2 }),
        newJob(5, { queueCap: 1, projectId: projectId(2) }),
      )).map(({ _tag }) => _tag)
      expect(tags).toEqual(["UploadRefused", "QueueFull", "Created", "Created"])
      yield* transaction.commit
    }),
  },
  {
    name: "a live job is accepted at the current price",
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      yield* openAudioGate
      const transaction = yield* begin
      yield* transaction.createJobs(newLiveJob(1))
      yield* transaction.commit
      expect((yield* read(newLiveJob(1))).price).toMatchObject({ name: "svc-audio", version: 1 })
    }),
  },
  {
    name: "anything other than a transaction is a defect, a TypeError",
    concurrent: false,
    run: Effect.fnUntraced(function* (_, through) {
      for (const [n, handle] of [undefined, null, 1, "transaction", {}, [], () => undefined, new Map()].entries()) {
        const exit = yield* Effect.exit(createIn(through, handle, [newJob(1)]))
        expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause), `handle ${n}`).toBe(true)
        expect(Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined).toBeInstanceOf(TypeError)
      }
      expect(yield* exists(newJob(1))).toBe(false)
    }),
  },
]
