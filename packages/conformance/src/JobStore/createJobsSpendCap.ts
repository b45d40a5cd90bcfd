import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { JobStore, type NewJob } from "@kiln/core/ports"
import {
  advance,
  capSpending as cap,
  create,
  createFailed,
  createTags,
  first,
  openAudioGate,
  spendingOf,
} from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { audioGate, jobId, keyId, newJob, newLiveJob, projectId } from "../fixtures.ts"

const day = 86_400_000

// A live job costs at most 10 characters at 0.000015, which is 0.00015, as does the charge of the fixtures.
const most = "0.00015"

const refusalOf = Effect.fnUntraced(function* (job: NewJob) {
  const outcome = first(yield* (yield* JobStore).createJobs([job]))
  return outcome._tag === "SpendCapReached" ? outcome.refusal : outcome._tag
})

const nothing = { reserved: "0", day: "0", month: "0" }

export const createJobsSpendCap: Section = {
  name: "JobStore.createJobs: spend cap",
  checks: [
    check(
      "a job that could pass the cap is refused, one that reaches it exactly is not",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0.00030" })
        expect(yield* createTags(newLiveJob(1), newLiveJob(2), newLiveJob(3))).toEqual([
          "Created",
          "Created",
          "SpendCapReached",
        ])
        expect(yield* spendingOf(projectId(1))).toEqual({ ...nothing, reserved: "0.0003" })
        expect(yield* createTags(newLiveJob(4, { maxUsage: { input_characters: 1 } }))).toEqual(["SpendCapReached"])
      }),
    ),

    check(
      "the refusal says whose cap, which period, the maximum cost, and when the period ends",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* advance(40 * day + 5)
        yield* openAudioGate
        const refused = { reason: "cap", currency: "usd", maximumCost: most }
        yield* cap(projectId(1), { month: "0.00015" })
        yield* create(newLiveJob(1))
        // The first of March 1970.
        expect(yield* refusalOf(newLiveJob(2))).toEqual({
          ...refused,
          owner: "project",
          period: "month",
          resetsAt: 59 * day,
        })
        yield* cap(keyId(1), { day: "0.0001" })
        expect(yield* refusalOf(newLiveJob(2))).toEqual({ ...refused, owner: "key", period: "day", resetsAt: null })
        yield* cap(keyId(1), { currency: "eur", day: "9" })
        expect(yield* refusalOf(newLiveJob(2))).toEqual({
          ...refused,
          reason: "currency",
          owner: "key",
          period: null,
          resetsAt: null,
        })
        expect(yield* refusalOf(newLiveJob(2, { maxUsage: null }))).toEqual({
          reason: "unbounded",
          owner: "key",
          currency: "usd",
          maximumCost: null,
          period: null,
          resetsAt: null,
        })
      }),
    ),

    check(
      "over a month, jobs of many calls never pass the cap",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "1", month: "0.0006" })
        for (const n of [1, 2, 3]) yield* create(newLiveJob(n))
        expect(yield* createTags(newLiveJob(4), newLiveJob(5))).toEqual(["Created", "SpendCapReached"])
        expect(yield* createTags(newLiveJob(6))).toEqual(["SpendCapReached"])
      }),
    ),

    check(
      "counts by project and by key",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0.00045" })
        yield* cap(keyId(1), { day: "0.00015" })
        yield* cap(keyId(2), { day: "9" })
        const other = { keyId: keyId(2) }
        expect(yield* createTags(newLiveJob(1), newLiveJob(2))).toEqual(["Created", "SpendCapReached"])
        expect(yield* createTags(newLiveJob(3, other), newLiveJob(4, other), newLiveJob(5, other))).toEqual([
          "Created",
          "Created",
          "SpendCapReached",
        ])
        expect(yield* createTags(newLiveJob(6, { projectId: projectId(2), keyId: keyId(3) }))).toEqual(["Created"])
        expect(yield* spendingOf(projectId(1))).toMatchObject({ reserved: "0.00045" })
        expect(yield* spendingOf(keyId(1))).toMatchObject({ reserved: "0.00015" })
        expect(yield* spendingOf(keyId(2))).toMatchObject({ reserved: "0.0003" })
      }),
    ),

    check(
      "neither sandbox jobs nor free jobs count",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0" })
        const free = newLiveJob(2, { gate: { ...audioGate, price: null }, maxUsage: null })
        const empty = newLiveJob(3, { maxUsage: { input_characters: 0 } })
        expect(yield* createTags(newJob(1), free, empty, newLiveJob(4))).toEqual([
          "Created",
          "Created",
          "Created",
          "SpendCapReached",
        ])
      }),
    ),

    check(
      "a refusal neither uses up the idempotency key nor reserves anything, and a replay comes first",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0.00015" })
        const [job] = yield* create(newLiveJob(1))
        const repeat = { ...newLiveJob(1), id: jobId(9) }
        expect(yield* store.createJobs([repeat])).toEqual([{ _tag: "Replayed", job }])
        expect(yield* createTags(newLiveJob(2))).toEqual(["SpendCapReached"])
        expect(yield* store.findByIdempotencyKey(keyId(1), newLiveJob(2).idempotencyKey)).toBe(undefined)
        yield* cap(projectId(1), { day: "0.0003" })
        expect(yield* createTags(newLiveJob(2))).toEqual(["Created"])
        expect(yield* spendingOf(projectId(1))).toMatchObject({ reserved: "0.0003" })
      }),
    ),

    check(
      "concurrent jobs never pass the cap together",
      Effect.gen(function* () {
        yield* openAudioGate
        yield* cap(projectId(1), { day: "0.001" })
        const tags = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, n) => newLiveJob(n + 1, { keyId: keyId((n % 3) + 1) })),
          (job) => createTags(job),
          { concurrency: "unbounded" },
        )
        expect(tags.flat().filter((tag) => tag === "Created")).toHaveLength(6)
      }),
    ),

    check(
      "a retry of a failed job is judged as well",
      Effect.gen(function* () {
        yield* openAudioGate
        const failed = yield* createFailed(newLiveJob(1))
        yield* cap(projectId(1), { day: "0.0001" })
        expect(yield* createTags(newLiveJob(2, { retryOf: failed.id }))).toEqual(["SpendCapReached"])
        yield* cap(projectId(1), { day: most })
        expect(yield* createTags(newLiveJob(2, { retryOf: failed.id }))).toEqual(["Created"])
        expect(yield* spendingOf(projectId(1))).toMatchObject({ reserved: most })
      }),
    ),
  ],
}
