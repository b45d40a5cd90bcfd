import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { AttemptRecord, JobId } from "@kiln/core/domain"
import { maxAttemptRecords } from "@kiln/core/rules"
import { type Claim, JobDirectory, JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, create, createAndClaim } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob, ownerOf } from "../fixtures.ts"

const record = (n: number): AttemptRecord => ({
  errorCode: "provider_unavailable",
  message: `failure ${n}: "quoted" \\ {é😀}, NULL`,
  stack: n % 2 === 0 ? null : `Error: failure ${n}\n    at run (kind.ts:1:${n})`,
  durationMs: 10 * n,
  worker: "host:1",
})

const attemptsOf = Effect.fnUntraced(function* (id: JobId) {
  return yield* (yield* JobDirectory).listAttempts(id)
})

const deferral = ({ job, token }: Claim, n: number) => ({
  jobId: job.id,
  token,
  delayMs: 0,
  countsAsFailure: true,
  record: record(n),
})

const failure = ({ job, token }: Claim, n: number) => ({
  jobId: job.id,
  token,
  errorCode: record(n).errorCode,
  record: record(n),
})

/** Job 1 with two attempts that failed, the second for good. */
const failTwice = Effect.gen(function* () {
  const store = yield* JobStore
  const first = yield* createAndClaim()
  yield* advance(100)
  expect(yield* store.deferJobs([deferral(first, 1)])).toEqual(["Written"])
  const second = yield* claimOne()
  yield* advance(50)
  expect(yield* store.failJobs([failure(second, 2)])).toEqual(["Written"])
})

export const listAttempts: Section = {
  name: "JobDirectory.listAttempts",
  checks: [
    check(
      "lists what failed attempts left, oldest first, with numbers and store times of their starts",
      Effect.gen(function* () {
        yield* failTwice
        expect(yield* attemptsOf(jobId(1))).toEqual([
          { ...record(1), number: 1, startedAt: 90 },
          { ...record(2), number: 2, startedAt: 130 },
        ])
      }),
    ),

    check(
      "an attempt without a record, and one that was released, leaves none; an unknown job is not there",
      Effect.gen(function* () {
        const store = yield* JobStore
        const { job, token } = yield* createAndClaim()
        yield* store.deferJobs([{ jobId: job.id, token, delayMs: 0, countsAsFailure: false }])
        const second = yield* claimOne()
        yield* store.releaseJobs([{ jobId: job.id, token: second.token }])
        const third = yield* claimOne()
        expect(yield* attemptsOf(job.id)).toEqual([])
        yield* store.failJobs([failure(third, 3)])
        expect(yield* attemptsOf(job.id)).toMatchObject([{ number: 3 }])
        expect(yield* attemptsOf(jobId(9))).toBe(undefined)
      }),
    ),

    check(
      "in one batch each job keeps its own record",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2), newJob(3), newJob(4))
        const { claims } = yield* claim({ limit: 4 })
        const byNumber = [1, 2, 3, 4].map((n) => {
          const found = claims.find(({ job }) => job.id === jobId(n))
          if (found === undefined) throw new Error(`job ${n} was not claimed`)
          return found
        })
        const [one, two, three, four] = byNumber as [Claim, Claim, Claim, Claim]
        yield* store.failJobs([failure(two, 2), { ...failure(one, 1), record: undefined }])
        yield* store.deferJobs([deferral(four, 4), deferral(three, 3)])
        const messages = yield* Effect.forEach([1, 2, 3, 4], (n) =>
          Effect.map(attemptsOf(jobId(n)), (attempts) => attempts?.map(({ message }) => message)),
        )
        expect(messages).toEqual([[], [record(2).message], [record(3).message], [record(4).message]])
      }),
    ),

    check(
      "a repeated end and a stale claim change nothing",
      Effect.gen(function* () {
        const store = yield* JobStore
        const first = yield* createAndClaim()
        const twice = yield* store.deferJobs([deferral(first, 1), deferral(first, 5)])
        expect(twice).toEqual(["Written", "Written"])
        expect(yield* store.deferJobs([deferral(first, 5)])).toEqual(["Written"])
        expect(yield* attemptsOf(jobId(1))).toMatchObject([{ number: 1, message: record(1).message }])
        const second = yield* claimOne()
        expect(yield* store.deferJobs([deferral(first, 5)])).toEqual(["LeaseLost"])
        expect(yield* store.failJobs([failure(first, 5)])).toEqual(["LeaseLost"])
        expect(yield* store.failJobs([failure(second, 2)])).toEqual(["Written"])
        expect(yield* store.failJobs([failure(second, 5)])).toEqual(["Written"])
        expect(yield* attemptsOf(jobId(1))).toMatchObject([{ number: 1 }, { message: record(2).message }])
      }),
    ),

    check(
      "only the newest are kept of a job with many failures",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        const last = maxAttemptRecords + 3
        for (let n = 1; n < last; n++) {
          yield* store.deferJobs([deferral(yield* claimOne(), n)])
          if (n === maxAttemptRecords) expect(yield* attemptsOf(jobId(1))).toHaveLength(maxAttemptRecords)
        }
        yield* store.failJobs([failure(yield* claimOne(), last)])
        const numbers = (yield* attemptsOf(jobId(1)))?.map(({ number }) => number)
        expect(numbers).toEqual(Array.from({ length: maxAttemptRecords }, (_, n) => n + 4))
      }),
    ),

    check(
      "records go with the job's data, whether it is erased, expires or its record is deleted",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* failTwice
        yield* store.eraseJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])
        expect(yield* attemptsOf(jobId(1))).toEqual([])
        const two = yield* createAndClaim(newJob(2))
        yield* store.failJobs([failure(two, 2)])
        yield* store.expireData(0, 10)
        expect(yield* attemptsOf(jobId(2))).toEqual([])
        const three = yield* createAndClaim(newJob(3))
        yield* store.failJobs([failure(three, 3)])
        expect((yield* store.deleteJobs(0, 10)).count).toBe(3)
        expect(yield* attemptsOf(jobId(3))).toBe(undefined)
      }),
    ),
  ],
}
