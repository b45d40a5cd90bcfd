import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { AttemptWait, JobId } from "@kiln/core/domain"
import { maxWaitRuns } from "@kiln/core/rules"
import { type Claim, JobDirectory, JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, create, createAndClaim } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, newJob, ownerOf, record } from "../fixtures.ts"

const quota: AttemptWait = { reason: "provider", subject: "speech", cause: "quota" }
const children: AttemptWait = { reason: "children", subject: null, cause: null }

const waitsOf = Effect.fnUntraced(function* (id: JobId) {
  return (yield* (yield* JobDirectory).listWaits([id]))[0]
})

const deferral = ({ job, token }: Claim, wait: AttemptWait) => ({
  jobId: job.id,
  token,
  delayMs: 0,
  countsAsFailure: false,
  wait,
})

/** Claims job 1 and lets its attempt wait for these reasons, one after the other. */
const waitFor = Effect.fnUntraced(function* (...waits: ReadonlyArray<AttemptWait>) {
  const store = yield* JobStore
  for (const wait of waits) {
    const claimed = yield* claimOne()
    yield* advance(10)
    expect(yield* store.deferJobs([deferral(claimed, wait)])).toEqual(["Written"])
  }
})

/** Why attempts ended to wait. */
export const listWaits: Section = {
  name: "JobDirectory.listWaits",
  checks: [
    check(
      "consecutive attempts that waited for the same are one run, oldest first",
      Effect.gen(function* () {
        yield* create(newJob(1))
        yield* waitFor(quota, quota, children, { ...children, subject: "x" }, quota)
        const alone = (attempt: number, at: number) => ({
          firstAttempt: attempt,
          lastAttempt: attempt,
          count: 1,
          firstAt: at,
          lastAt: at,
        })
        expect(yield* waitsOf(jobId(1))).toEqual([
          { ...quota, firstAttempt: 1, lastAttempt: 2, count: 2, firstAt: 10, lastAt: 20 },
          { ...children, ...alone(3, 30) },
          { ...children, subject: "x", ...alone(4, 40) },
          { ...quota, ...alone(5, 50) },
        ])
      }),
    ),

    check(
      "a failed attempt in between ends a run and leaves none",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        yield* waitFor(quota)
        const { token } = yield* claimOne()
        yield* store.deferJobs([{ jobId: jobId(1), token, delayMs: 0, countsAsFailure: true, record }])
        yield* waitFor(quota)
        expect((yield* waitsOf(jobId(1)))?.map(({ count, firstAttempt }) => [firstAttempt, count])).toEqual([
          [1, 1],
          [3, 1],
        ])
        expect(yield* (yield* JobDirectory).listAttempts(jobId(1))).toMatchObject([{ number: 2 }])
      }),
    ),

    check(
      "a repeat changes nothing, and a lost claim leaves nothing",
      Effect.gen(function* () {
        const store = yield* JobStore
        const claimed = yield* createAndClaim()
        yield* store.deferJobs([deferral(claimed, quota), deferral(claimed, children)])
        expect(yield* store.deferJobs([deferral(claimed, children)])).toEqual(["Written"])
        const again = yield* claimOne()
        expect(yield* store.deferJobs([deferral(claimed, children)])).toEqual(["LeaseLost"])
        expect(yield* waitsOf(jobId(1))).toMatchObject([{ ...quota, count: 1, lastAttempt: 1 }])
        expect(yield* store.releaseJobs([{ jobId: jobId(1), token: again.token }])).toEqual(["Written"])
        expect(yield* waitsOf(jobId(1))).toHaveLength(1)
      }),
    ),

    check(
      "of each job its own, also in one batch",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2), newJob(3))
        for (const waits of [
          [quota, quota, children],
          [quota, children, children],
        ] as const) {
          const { claims } = yield* claim()
          const byId = claims.toSorted((a, b) => (a.job.id < b.job.id ? -1 : 1))
          yield* store.deferJobs(byId.flatMap((one, n) => (waits[n] === undefined ? [] : [deferral(one, waits[n])])))
        }
        const listed = yield* (yield* JobDirectory).listWaits([jobId(3), jobId(9), jobId(1), jobId(2)])
        const runs = listed.map((found) => found?.map(({ count, reason }) => [reason, count]))
        expect([runs[2], runs[1], runs[3], runs[0]]).toEqual([
          [["provider", 2]],
          undefined,
          [
            ["provider", 1],
            ["children", 1],
          ],
          [["children", 2]],
        ])
      }),
    ),

    check(
      `only the newest ${maxWaitRuns} runs are kept`,
      Effect.gen(function* () {
        yield* create(newJob(1))
        yield* waitFor(...Array.from({ length: maxWaitRuns + 3 }, (_, n) => (n % 2 === 0 ? quota : children)))
        const runs = (yield* waitsOf(jobId(1))) ?? []
        expect(runs.map(({ firstAttempt }) => firstAttempt)).toEqual(
          Array.from({ length: maxWaitRuns }, (_, n) => n + 4),
        )
      }),
    ),

    check(
      "they stay when the data is erased, and go with the record",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        yield* waitFor(quota)
        const { token } = yield* claimOne()
        yield* store.failJobs([{ jobId: jobId(1), token, errorCode: "provider_unavailable" }])
        yield* store.eraseJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])
        expect(yield* waitsOf(jobId(1))).toMatchObject([quota])
        yield* advance(10)
        expect(yield* store.deleteJobs(5, 10)).toMatchObject({ count: 1 })
        expect(yield* waitsOf(jobId(1))).toBeUndefined()
        yield* create(newJob(2))
        expect(yield* waitsOf(jobId(2))).toEqual([])
      }),
    ),
  ],
}
