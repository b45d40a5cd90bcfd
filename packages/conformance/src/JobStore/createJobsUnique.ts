import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type CreateOutcome, JobStore, type NewJob } from "@kiln/core/ports"
import { advance, claimOne, complete, create, createFailed, createTags, exists, first, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { digest, jobId, newJob } from "../fixtures.ts"

const uniqueJob = (n: number, until: NonNullable<NewJob["unique"]>["while"], overrides: Partial<NewJob> = {}): NewJob =>
  newJob(n, { unique: { scope: digest(7), while: until }, ...overrides })

const outcomesOf = (...jobs: ReadonlyArray<NewJob>) => Effect.flatMap(JobStore, (store) => store.createJobs(jobs))

const duplicateOf = (outcome: CreateOutcome | undefined): string | undefined =>
  outcome?._tag === "Duplicate" ? outcome.job.id : outcome?._tag

/** Jobs that must be the only ones of their scope. */
export const uniqueJobs: Section = {
  name: "JobStore.createJobs: unique jobs",
  checks: [
    check(
      "a second job of the scope is the first one until that has finished, whatever it asks for",
      Effect.gen(function* () {
        const job = first(yield* create(uniqueJob(1, "unfinished")))
        const second = uniqueJob(2, "unfinished", { request: { other: true }, fingerprint: digest(2) })
        expect(yield* outcomesOf(second)).toEqual([{ _tag: "Duplicate", job }])
        expect(yield* exists(second)).toBe(false)
        const claimed = yield* claimOne()
        const running = yield* read(job)
        expect(yield* outcomesOf(second)).toEqual([{ _tag: "Duplicate", job: running }])
        yield* complete(claimed)
        expect(yield* createTags(second)).toEqual(["Created"])
        expect((yield* outcomesOf(uniqueJob(3, "unfinished"))).map(duplicateOf)).toEqual([jobId(2)])
      }),
    ),

    check(
      "until it is claimed",
      Effect.gen(function* () {
        yield* create(uniqueJob(1, "queued"))
        expect(yield* createTags(uniqueJob(2, "queued"))).toEqual(["Duplicate"])
        yield* claimOne()
        expect(yield* createTags(uniqueJob(2, "queued"))).toEqual(["Created"])
      }),
    ),

    check(
      "for a time from its creation, finished or not",
      Effect.gen(function* () {
        yield* create(uniqueJob(1, 1_000))
        yield* complete(yield* claimOne())
        yield* advance(999)
        expect(yield* createTags(uniqueJob(2, 1_000))).toEqual(["Duplicate"])
        yield* advance(1)
        expect(yield* createTags(uniqueJob(2, 1_000), uniqueJob(3, 1_000))).toEqual(["Created", "Duplicate"])
      }),
    ),

    check(
      "other scopes, and jobs that need not be unique, are independent",
      Effect.gen(function* () {
        const other = uniqueJob(3, "unfinished", { unique: { scope: digest(8), while: "unfinished" } })
        expect(yield* createTags(uniqueJob(1, "unfinished"), newJob(2), other)).toEqual([
          "Created",
          "Created",
          "Created",
        ])
      }),
    ),

    check(
      "an idempotency key decides first, and a duplicate does not bind one",
      Effect.gen(function* () {
        const job = first(yield* create(uniqueJob(1, "unfinished")))
        const { fingerprint, idempotencyKey } = uniqueJob(1, "unfinished")
        const repeat = uniqueJob(2, "unfinished", { idempotencyKey, fingerprint })
        expect(yield* outcomesOf(repeat)).toEqual([{ _tag: "Replayed", job }])
        expect(yield* createTags({ ...repeat, fingerprint: digest(9) })).toEqual(["KeyReused"])
        const duplicate = uniqueJob(3, "unfinished")
        expect(yield* createTags(duplicate)).toEqual(["Duplicate"])
        expect(yield* createTags({ ...duplicate, unique: undefined })).toEqual(["Created"])
      }),
    ),

    check(
      "a duplicate is found in a full queue, and does not count",
      Effect.gen(function* () {
        yield* create(uniqueJob(1, "unfinished", { queueCap: 1 }))
        expect(yield* createTags(uniqueJob(2, "unfinished", { queueCap: 1 }), newJob(3, { queueCap: 1 }))).toEqual([
          "Duplicate",
          "QueueFull",
        ])
        expect(yield* createTags(newJob(4, { queueCap: 2 }))).toEqual(["Created"])
      }),
    ),

    check(
      "a refused job does not take the scope",
      Effect.gen(function* () {
        yield* create(newJob(1))
        expect(yield* createTags(uniqueJob(2, "unfinished", { queueCap: 1 }))).toEqual(["QueueFull"])
        expect(yield* createTags(uniqueJob(3, "unfinished"))).toEqual(["Created"])
      }),
    ),

    check(
      "a retry takes over the scope of the failed job",
      Effect.gen(function* () {
        yield* createFailed(uniqueJob(1, "unfinished"))
        yield* create(newJob(2, { retryOf: jobId(1) }))
        expect((yield* outcomesOf(uniqueJob(3, "unfinished"))).map(duplicateOf)).toEqual([jobId(2)])
      }),
    ),

    check(
      "of several retries in one call, the first takes it over",
      Effect.gen(function* () {
        yield* createFailed(uniqueJob(1, "unfinished"))
        const retries = [2, 3].map((n) => newJob(n, { retryOf: jobId(1) }))
        expect(yield* createTags(...retries)).toEqual(["Created", "Created"])
        expect((yield* outcomesOf(uniqueJob(4, "unfinished"))).map(duplicateOf)).toEqual([jobId(2)])
      }),
    ),

    check(
      "and a later submission in the same call finds it there",
      Effect.gen(function* () {
        yield* createFailed(uniqueJob(1, "unfinished"))
        const both = yield* outcomesOf(newJob(2, { retryOf: jobId(1) }), uniqueJob(3, "unfinished"))
        expect(both.map(duplicateOf)).toEqual(["Created", jobId(2)])
        expect(yield* exists(uniqueJob(3, "unfinished"))).toBe(false)
      }),
    ),

    check(
      "but not if another job has it by then",
      Effect.gen(function* () {
        yield* createFailed(uniqueJob(1, "unfinished"))
        yield* create(uniqueJob(2, "unfinished"))
        yield* create(newJob(3, { retryOf: jobId(1) }))
        expect((yield* outcomesOf(uniqueJob(4, "unfinished"))).map(duplicateOf)).toEqual([jobId(2)])
      }),
    ),

    check(
      "a retry with its scope is refused while another job has that, and takes it otherwise",
      Effect.gen(function* () {
        const retry = (n: number, of: number) => uniqueJob(n, "unfinished", { retryOf: jobId(of) })
        yield* createFailed(uniqueJob(1, "unfinished"))
        const newer = first(yield* create(uniqueJob(2, "unfinished")))
        expect(yield* outcomesOf(retry(3, 1))).toEqual([{ _tag: "Duplicate", job: newer }])
        yield* complete(yield* claimOne())
        // A later one finds the retry before it.
        expect(yield* createTags(retry(3, 1), uniqueJob(4, "unfinished"))).toEqual(["Created", "Duplicate"])
        expect((yield* outcomesOf(uniqueJob(5, "unfinished"))).map(duplicateOf)).toEqual([jobId(3)])
      }),
    ),

    check(
      "a retry is no duplicate of the job that it retries, however long that keeps its scope",
      Effect.gen(function* () {
        yield* createFailed(uniqueJob(1, 1_000_000))
        expect(yield* createTags(uniqueJob(2, 1_000_000))).toEqual(["Duplicate"])
        expect(yield* createTags(uniqueJob(3, 1_000_000, { retryOf: jobId(1) }))).toEqual(["Created"])
        expect((yield* outcomesOf(uniqueJob(4, 1_000_000))).map(duplicateOf)).toEqual([jobId(3)])
      }),
    ),

    check(
      "of a retry and submissions at once, one is created",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* createFailed(uniqueJob(1, "unfinished"))
        const outcomes = yield* Effect.forEach(
          Array.from({ length: 12 }, (_, n) => uniqueJob(n + 2, "unfinished", { retryOf: n === 6 ? jobId(1) : null })),
          (job) => store.createJobs([job]),
          { concurrency: "unbounded" },
        )
        expect(outcomes.flat().filter(({ _tag }) => _tag === "Created")).toHaveLength(1)
      }),
    ),

    check(
      "a scope is free once the record of its job is deleted",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(uniqueJob(1, 1_000_000))
        yield* complete(yield* claimOne())
        expect(yield* createTags(uniqueJob(2, 1_000_000))).toEqual(["Duplicate"])
        yield* store.deleteJobs(0, 10)
        expect(yield* createTags(uniqueJob(2, 1_000_000))).toEqual(["Created"])
      }),
    ),

    check(
      "of many at once, one is created",
      Effect.gen(function* () {
        const store = yield* JobStore
        const outcomes = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, n) => uniqueJob(n + 1, "unfinished")),
          (job) => store.createJobs([job]),
          { concurrency: "unbounded" },
        )
        const ids = outcomes.flat().map((outcome) => ("job" in outcome ? outcome.job.id : outcome._tag))
        expect(outcomes.flat().filter(({ _tag }) => _tag === "Created")).toHaveLength(1)
        expect(new Set(ids).size).toBe(1)
      }),
    ),
  ],
}
