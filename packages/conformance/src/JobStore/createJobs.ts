import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { JsonObject } from "@kiln/core/domain"
import { created, keylessKey } from "@kiln/core/rules"
import { JobStore, type NewJob, Switchboard } from "@kiln/core/ports"
import {
  advance,
  claim,
  claimOne,
  complete,
  create,
  createAndClaim,
  createTags,
  duePurges,
  first,
  now,
  openAudioGate,
  read,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { stateOf } from "../expectations.ts"
import { digest, jobId, keyId, newJob, newLiveJob, ownerOf, projectId, queueLimitMs, runLimitMs } from "../fixtures.ts"

/** Creating jobs. Idempotency, gate, upload and queue cap have separate files. */
export const createJobs: Section = {
  name: "JobStore.createJobs",
  checks: [
    check(
      "accepts a job as queued, at store time, with all its fields",
      Effect.gen(function* () {
        yield* advance(1_234)
        const item = newJob(1)
        const job = first(yield* create(item))
        expect(stateOf(job)).toEqual(created(1_234, { queueLimitMs, runLimitMs }))
        expect(job).toMatchObject({
          id: item.id,
          projectId: item.projectId,
          keyId: item.keyId,
          mode: "sandbox",
          kind: item.kind,
          uploadId: null,
          idempotencyKey: item.idempotencyKey,
          fingerprint: item.fingerprint,
          price: null,
          createdAt: 1_234,
          retained: "kept",
          request: item.request,
          checkpoints: {},
          output: null,
          files: [],
          warningCode: null,
          charge: null,
        })
        expect(yield* read(item)).toEqual(job)
        expect(yield* duePurges).toEqual([])
      }),
    ),

    check(
      "answers in the order of the items",
      Effect.gen(function* () {
        const jobs = yield* create(newJob(3), newJob(1), newJob(2))
        expect(jobs.map((job) => job.id)).toEqual([jobId(3), jobId(1), jobId(2)])
        for (const job of jobs) expect(yield* read(job)).toEqual(job)
      }),
    ),

    check(
      "accepts an empty batch",
      Effect.gen(function* () {
        expect(yield* create()).toEqual([])
      }),
    ),

    check(
      "keeps each job's own limits",
      Effect.gen(function* () {
        const limits = { queueLimitMs: 5_000, runLimitMs: 700 }
        yield* create(newJob(1, { limits }), newJob(2))
        expect(yield* read(newJob(1))).toMatchObject({ ...limits, deadlineAt: 5_000 })
        expect(yield* read(newJob(2))).toMatchObject({ queueLimitMs, runLimitMs, deadlineAt: queueLimitMs })
      }),
    ),

    check(
      "keeps a request exactly: nesting, all of Unicode, numbers, names of the prototype",
      Effect.gen(function* () {
        const text =
          '{"__proto__":{"a":1},"constructor":"x","list":[[],{},null,true,false,0,-1.5,1e21,5e-324,9007199254740991],"text":"a\\u0001\\"\\\\\\n\\ud83d\\ude00é\\u2028","":""}'
        const request = JSON.parse(text) as JsonObject
        yield* create(newJob(1, { request }))
        const found = (yield* read(newJob(1))).request ?? {}
        expect(found).toEqual(request)
        expect(Object.keys(found).sort()).toEqual(Object.keys(request).sort())
        expect(Object.getOwnPropertyDescriptor(found, "__proto__")?.value).toEqual({ a: 1 })
        expect((yield* claimOne()).job.request).toEqual(request)
      }),
    ),

    check(
      "keeps a copy: later changes to the caller's request object have no effect",
      Effect.gen(function* () {
        const request = { list: [1, 2] }
        yield* create(newJob(1, { request }))
        request.list.push(3)
        expect((yield* read(newJob(1))).request).toEqual({ list: [1, 2] })
      }),
    ),

    check(
      "a new job can be claimed immediately",
      Effect.gen(function* () {
        yield* create(newJob(1))
        expect((yield* claim()).claims.map(({ job }) => job.id)).toEqual([jobId(1)])
      }),
    ),
  ],
}

/** One job per API key record and idempotency key, permanently. */
export const createJobsIdempotency: Section = {
  name: "JobStore.createJobs: idempotency",
  checks: [
    check(
      "a repeat gets the first job, and there is no second",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = first(yield* create(newJob(1)))
        yield* advance(1)
        const repeat = { ...newJob(2), idempotencyKey: newJob(1).idempotencyKey, fingerprint: newJob(1).fingerprint }
        expect(yield* store.createJobs([repeat])).toEqual([{ _tag: "Replayed", job }])
        expect(yield* store.findJobs([{ jobId: jobId(2), principal: ownerOf(repeat) }])).toEqual([undefined])
        expect((yield* claim()).claims).toHaveLength(1)
      }),
    ),

    check(
      "a repeat gets the current state of the job",
      Effect.gen(function* () {
        const store = yield* JobStore
        const replay = Effect.map(store.createJobs([newJob(1)]), first)
        const claimed = yield* createAndClaim()
        expect(yield* replay).toEqual({ _tag: "Replayed", job: claimed.job })
        const done = yield* complete(claimed)
        expect(yield* replay).toEqual({ _tag: "Replayed", job: done })
        yield* store.eraseJobs([{ jobId: done.id, principal: ownerOf(done) }])
        expect(yield* replay).toEqual({ _tag: "Replayed", job: yield* read(done) })
      }),
    ),

    check(
      "the same key with another request is refused and changes nothing",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = first(yield* create(newJob(1)))
        const reuse = { ...newJob(2), idempotencyKey: newJob(1).idempotencyKey }
        expect(yield* createTags(reuse)).toEqual(["KeyReused"])
        expect(yield* read(job)).toEqual(job)
        expect(yield* store.findJobs([{ jobId: jobId(2), principal: ownerOf(reuse) }])).toEqual([undefined])
      }),
    ),

    check(
      "belongs to the key record: another one may use the same text",
      Effect.gen(function* () {
        const { idempotencyKey, fingerprint } = newJob(1)
        yield* create(
          newJob(1),
          newJob(2, { keyId: keyId(2), idempotencyKey, fingerprint }),
          newJob(3, { projectId: projectId(2), keyId: keyId(3), idempotencyKey, fingerprint: digest(9) }),
        )
      }),
    ),

    check(
      "compares keys exactly, up to the longest",
      Effect.gen(function* () {
        const keys = ["a", "A", "a.", "%61", "x".repeat(255), `${"x".repeat(254)}y`]
        yield* create(...keys.map((idempotencyKey, n) => newJob(n, { idempotencyKey })))
      }),
    ),

    check(
      "holds within one batch",
      Effect.gen(function* () {
        const { idempotencyKey, fingerprint } = newJob(1)
        expect(
          yield* createTags(
            newJob(1),
            newJob(2, { idempotencyKey, fingerprint }),
            newJob(3, { idempotencyKey }),
            newJob(4),
          ),
        ).toEqual(["Created", "Replayed", "KeyReused", "Created"])
        expect((yield* claim()).claims.map(({ job }) => job.id)).toEqual([jobId(1), jobId(4)])
      }),
    ),

    check(
      "a key that names its own job is like any other",
      Effect.gen(function* () {
        const store = yield* JobStore
        const own = newJob(1, { idempotencyKey: keylessKey(jobId(1)) })
        const repeat = { ...newJob(2), idempotencyKey: own.idempotencyKey, fingerprint: own.fingerprint }
        const reuse = { ...repeat, fingerprint: digest(99) }
        const ofAnother = { ...repeat, id: jobId(3), keyId: keyId(2) }
        const job = first(yield* create(own))
        expect(yield* store.findByIdempotencyKey(job.keyId, job.idempotencyKey)).toEqual(job)
        expect(yield* store.findByIdempotencyKey(keyId(2), job.idempotencyKey)).toBe(undefined)
        expect(yield* createTags(own)).toEqual(["Replayed"])
        expect(yield* createTags(repeat)).toEqual(["Replayed"])
        expect(yield* createTags(reuse)).toEqual(["KeyReused"])
        expect(yield* createTags(newJob(4), repeat, reuse, own)).toEqual([
          "Created",
          "Replayed",
          "KeyReused",
          "Replayed",
        ])
        expect(yield* createTags(ofAnother)).toEqual(["Created"])
        expect(yield* createTags({ ...ofAnother, id: jobId(5) }, newJob(6))).toEqual(["Replayed", "Created"])
      }),
    ),

    check(
      "a repeat gets the whole job, with its long request and its price, by each of its keys and by its scope",
      Effect.gen(function* () {
        const [store, board] = [yield* JobStore, yield* Switchboard]
        // Of another job, and first in the store.
        const price = { name: "svc-image", currency: "eur", unitAmounts: { input_characters: "0.5" } }
        yield* board.setPrice(price)
        yield* create(newJob(1, { request: { input: "first ".repeat(200) } }))
        yield* openAudioGate
        const long = (n: number, overrides: Partial<NewJob> = {}) =>
          newLiveJob(n, { request: { input: `job ${n} `.repeat(200) }, ...overrides })
        const scoped = (n: number) =>
          long(n, { unique: { scope: digest(7), while: "queued", replaces: true }, priority: "low" })
        const items = [long(2), long(3, { idempotencyKey: keylessKey(jobId(3)) }), scoped(4)]
        for (const item of items) {
          const job = first(yield* create(item))
          expect(job).toMatchObject({ request: item.request, price: { name: "svc-audio" } })
          expect(yield* store.createJobs([{ ...item, id: jobId(9) }])).toEqual([{ _tag: "Replayed", job }])
        }
        const duplicate = { ...scoped(5), unique: { scope: digest(7), while: "queued" } as const }
        expect(yield* store.createJobs([duplicate])).toEqual([{ _tag: "Duplicate", job: yield* read(long(4)) }])
        yield* store.createJobs([scoped(6)])
        const replaced = yield* read(long(4))
        expect(replaced.request).toEqual(long(6).request)
        expect(yield* store.createJobs([scoped(4)])).toEqual([{ _tag: "Replayed", job: replaced }])
      }),
    ),

    check(
      "of many concurrent calls, one creates and all others replay it",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { idempotencyKey, fingerprint } = newJob(1)
        const outcomes = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, n) => newJob(n + 1, { idempotencyKey, fingerprint })),
          (job) => Effect.map(store.createJobs([job]), first),
          { concurrency: "unbounded" },
        )
        expect(outcomes.filter(({ _tag }) => _tag === "Created")).toHaveLength(1)
        expect(outcomes.filter(({ _tag }) => _tag === "Replayed")).toHaveLength(19)
        expect(new Set(outcomes.map((outcome) => ("job" in outcome ? outcome.job.id : "")))).toHaveLength(1)
        expect((yield* claim()).claims).toHaveLength(1)
      }),
    ),

    check(
      "ends with the job's record",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* complete(yield* createAndClaim())
        expect(yield* store.deleteJobs(0, 10)).toMatchObject({ count: 1 })
        const again = newJob(2, { idempotencyKey: newJob(1).idempotencyKey })
        expect(yield* createTags(again)).toEqual(["Created"])
        expect((yield* read(again)).createdAt).toBe(yield* now)
      }),
    ),
  ],
}
