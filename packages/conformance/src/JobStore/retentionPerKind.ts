import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { withSubmitted } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import { advance, claimOne, complete, create, createAndClaim, createDone, exists, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob } from "../fixtures.ts"

/** Finishes a job of a kind that only old workers knew. */
const createRetired = Effect.fnUntraced(function* (n: number) {
  const runnable = [{ kind: "retired", kindVersion: 1, mode: "sandbox" }] as const
  return yield* complete(yield* createAndClaim(newJob(n, { kind: "retired" }), { runnable }))
})

const spoken = (n: number) => createDone(newJob(n, { kind: "speech_synthesis" }), n)
const transcribed = (n: number) => createDone(newJob(n, { kind: "transcription" }), n)

/** Which of jobs 1 to `count` the verb has not changed yet. */
const untouched = (verb: "expireData" | "deleteJobs", count: number) =>
  Effect.filter(
    Array.from({ length: count }, (_, index) => index + 1),
    (n) =>
      verb === "deleteJobs"
        ? exists({ ...newJob(n), id: jobId(n) })
        : Effect.map(read(newJob(n)), ({ retained }) => retained === "kept"),
  )

/** The effect of the ages of kinds, the same for data and for records. */
export const retentionPerKind = (verb: "expireData" | "deleteJobs"): Section["checks"] => [
  check(
    "each kind has its own age, to the millisecond; a kind that is not named has the age of all others",
    Effect.gen(function* () {
      const store = yield* JobStore
      const ages = { others: 5_000, byKind: { speech_synthesis: 2_000, transcription: 10_000 } }
      const sweep = Effect.map(store[verb](ages, 10), ({ count }) => count)
      yield* spoken(1)
      yield* transcribed(2)
      yield* createRetired(3)
      yield* advance(1_999)
      expect(yield* sweep).toBe(0)
      yield* advance(1)
      expect([yield* sweep, yield* untouched(verb, 3)]).toEqual([1, [2, 3]])
      yield* advance(2_999)
      expect(yield* sweep).toBe(0)
      yield* advance(1)
      expect([yield* sweep, yield* untouched(verb, 3)]).toEqual([1, [2]])
      yield* advance(4_999)
      expect(yield* sweep).toBe(0)
      yield* advance(1)
      expect([yield* sweep, yield* untouched(verb, 3)]).toEqual([1, []])
    }),
  ),

  check(
    "an infinite age keeps a kind's jobs, and one for all others keeps every kind that is not named",
    Effect.gen(function* () {
      const store = yield* JobStore
      yield* spoken(1)
      yield* transcribed(2)
      yield* createRetired(3)
      yield* advance(1_000_000_000)
      expect((yield* store[verb]({ others: Infinity, byKind: {} }, 10)).count).toBe(0)
      expect((yield* store[verb]({ others: Infinity, byKind: { transcription: 1_000 } }, 10)).count).toBe(1)
      expect(yield* untouched(verb, 3)).toEqual([1, 3])
      expect((yield* store[verb]({ others: 1_000, byKind: { speech_synthesis: Infinity } }, 10)).count).toBe(1)
      expect(yield* untouched(verb, 3)).toEqual([1])
    }),
  ),

  check(
    "jobs of a kind that is kept longer do not use up the limit",
    Effect.gen(function* () {
      const store = yield* JobStore
      for (const n of [1, 2, 3]) yield* spoken(n)
      yield* advance(1_000)
      for (const n of [4, 5]) yield* transcribed(n)
      yield* advance(1_000)
      const sweep = store[verb]({ others: 1_000, byKind: { speech_synthesis: 1_000_000 } }, 1)
      expect([(yield* sweep).count, yield* untouched(verb, 5)]).toEqual([1, [1, 2, 3, 5]])
      expect([(yield* sweep).count, yield* untouched(verb, 5)]).toEqual([1, [1, 2, 3]])
      expect((yield* sweep).count).toBe(0)
    }),
  ),

  check(
    "a child stays until its parent has finished, and does not use up the limit",
    Effect.gen(function* () {
      const store = yield* JobStore
      yield* create(newJob(1, { kind: "retired" }))
      const parent = { jobId: jobId(1), step: "all of them" }
      for (const n of [2, 3]) yield* createDone(newJob(n, { metadata: withSubmitted({}, { parent }) }), n)
      // A tag is no parent.
      const tagged = withSubmitted({}, { tags: [jobId(1), `^${jobId(1)}`] })
      for (const n of [4, 5]) yield* createDone(newJob(n, { metadata: tagged }), n)
      yield* advance(10_000)
      expect((yield* store[verb](1_000, 2)).count).toBe(2)
      expect(yield* untouched(verb, 5)).toEqual([1, 2, 3])
      expect((yield* store[verb](1_000, 2)).count).toBe(0)
      yield* complete(yield* claimOne({ runnable: [{ kind: "retired", kindVersion: 1, mode: "sandbox" }] }))
      expect((yield* store[verb](1_000, 10)).count).toBe(2)
      expect(yield* untouched(verb, 5)).toEqual([1])
    }),
  ),

  check(
    "the limit holds for all kinds together",
    Effect.gen(function* () {
      const store = yield* JobStore
      for (const n of [1, 2]) yield* spoken(n)
      for (const n of [3, 4]) yield* transcribed(n)
      expect((yield* store[verb]({ others: 0, byKind: {} }, 3)).count).toBe(3)
      expect((yield* store[verb]({ others: 0, byKind: {} }, 3)).count).toBe(1)
    }),
  ),
]
