import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { maxParkMs, type Parking, withSubmitted } from "@kiln/core/domain"
import { type Claim, type ClaimRef, JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, complete, create, createAndClaim, createDone, exists, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { expectMoved } from "../expectations.ts"
import { completionOf, jobId, newJob, ownerOf, queueLimitMs } from "../fixtures.ts"

const dependent = (n: number, ...after: ReadonlyArray<number>) =>
  newJob(n, { metadata: withSubmitted({}, { after: after.map(jobId) }) })

const refOf = ({ job, token }: Claim): ClaimRef => ({ jobId: job.id, token })

const on = (total: number, until?: number): Parking => ({ reason: "after", subject: `${total}`, until })

const park = Effect.fnUntraced(function* (parking: Parking, ...claims: ReadonlyArray<Claim>) {
  const store = yield* JobStore
  return yield* store.deferJobs(
    claims.map((one) => ({ ...refOf(one), delayMs: 1, countsAsFailure: true, record: undefined, park: parking })),
  )
})

const numbersOf = (claims: ReadonlyArray<Claim>) => claims.map(({ job }) => Number(job.id.slice("job_".length)))

/** Jobs that are parked until others have finished. */
export const parkAfterJobs: Section = {
  name: "JobStore: jobs that start after others",
  checks: [
    check(
      "the end of the last prerequisite wakes the job in the same step, however they end",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2), newJob(3))
        const { claims } = yield* claim()
        const waiting = yield* createAndClaim(dependent(4, 3, 1, 2, 1))
        expect(yield* park(on(4), waiting)).toEqual(["Written"])
        expect(yield* read(newJob(4))).toMatchObject({ claimableAt: maxParkMs, attempts: 0, held: false })
        yield* advance(100)
        yield* store.completeJobs(claims.slice(0, 1).map((one) => completionOf(one)))
        yield* store.failJobs(claims.slice(1, 2).map((one) => ({ ...refOf(one), errorCode: "internal_error" })))
        expect(yield* read(newJob(4))).toMatchObject({ claimableAt: maxParkMs })
        yield* advance(100)
        yield* store.cancelJobs([jobId(3)])
        expect(yield* read(newJob(4))).toMatchObject({
          claimableAt: 200,
          phaseStartedAt: 200,
          deadlineAt: 200 + queueLimitMs,
          token: 2,
        })
        expect((yield* claimOne()).job).toMatchObject({ id: jobId(4), attempts: 1, token: 3 })
        expect(yield* claim()).toMatchObject({ claims: [] })
      }),
    ),

    check(
      "only prerequisites count, not a tag that is the id of a job",
      Effect.gen(function* () {
        yield* createDone(newJob(1))
        yield* create(newJob(2, { delayMs: 60_000 }))
        const metadata = withSubmitted({}, { after: [jobId(1)], tags: [jobId(2)] })
        expect(yield* park(on(1), yield* createAndClaim(newJob(3, { metadata })))).toEqual(["Written"])
        expect(yield* read(newJob(3))).toMatchObject({ claimableAt: 0 })
      }),
    ),

    check(
      "a job whose prerequisites have ended, or do not exist, is not parked on them; with a time it is a poll",
      Effect.gen(function* () {
        yield* createDone(newJob(1))
        const first = yield* createAndClaim(dependent(2, 1, 9))
        expect(yield* park(on(2), first)).toEqual(["Written"])
        const second = yield* claimOne()
        expect(second.job).toMatchObject({ id: jobId(2), attempts: 1, token: 3 })
        expect(yield* park(on(2, 7_000), second)).toEqual(["Written"])
        expect(yield* read(newJob(2))).toMatchObject({ claimableAt: 7_000 })
      }),
    ),

    check(
      "a prerequisite that ends before the job is parked counts, and one that ends while it is parked is counted once",
      Effect.gen(function* () {
        yield* create(newJob(1), newJob(2), newJob(3))
        const { claims } = yield* claim()
        const waiting = yield* createAndClaim(dependent(4, 1, 2, 3))
        const [one, two, three] = claims
        if (one === undefined || two === undefined || three === undefined) throw new Error("three jobs were claimed")
        yield* complete(one)
        expect(yield* park(on(3), waiting)).toEqual(["Written"])
        yield* complete(two)
        const store = yield* JobStore
        expect(yield* store.completeJobs([completionOf(two)])).toEqual(["Written"])
        expect(yield* claim()).toMatchObject({ claims: [] })
        yield* complete(three)
        expect(numbersOf((yield* claim()).claims)).toEqual([4])
      }),
    ),

    check(
      "a batch that ends the prerequisites of several jobs wakes each, also of jobs that are children, and none twice",
      Effect.gen(function* () {
        const store = yield* JobStore
        const parent = yield* createAndClaim(newJob(1))
        const child = (n: number) =>
          newJob(n, { metadata: withSubmitted({}, { parent: { jobId: jobId(1), step: "parts" } }) })
        yield* create(child(2), child(3), newJob(4))
        const { claims } = yield* claim()
        yield* create(dependent(5, 2), dependent(6, 3, 4), dependent(7, 8))
        yield* create(newJob(8))
        const { claims: waiting } = yield* claim({ limit: 3 })
        expect(numbersOf(waiting)).toEqual([5, 6, 7])
        expect(yield* park(on(1), ...waiting)).toEqual(["Written", "Written", "Written"])
        expect(yield* park({ reason: "children", subject: "parts" }, parent)).toEqual(["Written"])
        yield* store.completeJobs(claims.map((one) => completionOf(one)))
        expect(numbersOf((yield* claim()).claims).toSorted((one, other) => one - other)).toEqual([1, 5, 6, 8])
        expect(yield* claim()).toMatchObject({ claims: [] })
        expect(yield* read(newJob(7))).toMatchObject({ claimableAt: maxParkMs })
      }),
    ),

    check(
      "the end of a job that was parked on others wakes those that start after it",
      Effect.gen(function* () {
        const one = yield* createAndClaim(newJob(1))
        const two = yield* createAndClaim(dependent(2, 1))
        const three = yield* createAndClaim(dependent(3, 2, 1))
        expect(yield* park(on(1), two)).toEqual(["Written"])
        expect(yield* park(on(2), three)).toEqual(["Written"])
        yield* complete(one)
        const again = yield* claimOne()
        expect(again.job.id).toBe(jobId(2))
        yield* complete(again)
        expect((yield* claimOne()).job.id).toBe(jobId(3))
      }),
    ),

    check(
      "a job that was claimed again, or canceled, is woken no more",
      Effect.gen(function* () {
        const store = yield* JobStore
        const one = yield* createAndClaim(newJob(1))
        const claimed = [yield* createAndClaim(dependent(2, 1)), yield* createAndClaim(dependent(3, 1))]
        expect(yield* park(on(1, 10), ...claimed)).toEqual(["Written", "Written"])
        yield* advance(10)
        const again = yield* claimOne()
        yield* store.cancelJobs([jobId(3)])
        yield* complete(one)
        expect(yield* read(newJob(2))).toMatchObject({ held: true, token: again.token })
        expect(yield* read(newJob(3))).toMatchObject({ status: "failed" })
        expect(yield* claim()).toMatchObject({ claims: [] })
      }),
    ),

    check(
      "the records and the data of prerequisites stay until the job has finished; erasure on request does not wait",
      Effect.gen(function* () {
        const store = yield* JobStore
        for (const n of [1, 2, 3]) yield* createDone(newJob(n), n)
        yield* create(dependent(4, 1, 2))
        yield* advance(100)
        expect(yield* store.expireData(50, 10)).toMatchObject({ count: 1 })
        expect(yield* store.deleteJobs(50, 10)).toMatchObject({ count: 1 })
        expect(yield* exists(newJob(3))).toBe(false)
        yield* store.eraseJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])
        expect(yield* read(newJob(1))).toMatchObject({ retained: "deleted", output: null, status: "done" })
        expect(yield* store.deleteJobs(50, 10)).toMatchObject({ count: 0 })
        expect(yield* read(newJob(2))).toMatchObject({ retained: "kept" })
        yield* complete(yield* claimOne())
        expect(yield* store.expireData(50, 10)).toMatchObject({ count: 1 })
        expect(yield* store.deleteJobs(50, 10)).toMatchObject({ count: 2 })
      }),
    ),

    check(
      "a job that no worker has claimed has its whole queue limit from the end of its last prerequisite",
      Effect.gen(function* () {
        const store = yield* JobStore
        const limits = { queueLimitMs: 1_000, runLimitMs: 60_000 }
        yield* create(newJob(1), newJob(2))
        const running = yield* claim({ limit: 2 })
        yield* create({ ...dependent(3, 1, 2, 9), limits }, { ...dependent(4, 9), limits }, newJob(5, { limits }))
        yield* advance(1_000)
        // A prerequisite that does not exist is none.
        expect([...(yield* store.expireJobs(2))].toSorted()).toEqual([jobId(4), jobId(5)])
        const unfinished = yield* read(newJob(3))
        expect(unfinished).toMatchObject({
          status: "queued",
          deadlineAt: 2_000,
          claimableAt: 1_000,
          waitedMs: 0,
          token: 0,
        })
        yield* advance(300)
        yield* complete(running.claims[0] as Claim)
        yield* advance(100)
        yield* complete(running.claims[1] as Claim)
        yield* advance(600)
        const before = yield* read(newJob(3))
        expect(yield* store.expireJobs(10)).toEqual([])
        const after = yield* read(newJob(3))
        expectMoved(before, { event: "postponed", since: 1_400 }, 2_000, after)
        expect(after).toMatchObject({ claimableAt: 1_400, deadlineAt: 2_400 })
        yield* advance(399)
        expect(yield* store.expireJobs(10)).toEqual([])
        expect((yield* claimOne()).job).toMatchObject({ id: jobId(3), waitedMs: 999, attempts: 1 })
      }),
    ),

    check(
      "a job that no worker claims in the queue limit after its last prerequisite fails",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        const running = yield* claimOne()
        yield* create({ ...dependent(2, 1), limits: { queueLimitMs: 1_000, runLimitMs: 60_000 } })
        yield* advance(1_500)
        expect(yield* store.expireJobs(10)).toEqual([])
        yield* complete(running)
        yield* advance(999)
        expect(yield* store.expireJobs(10)).toEqual([])
        yield* advance(1)
        expect(yield* store.expireJobs(10)).toEqual([jobId(2)])
        expect(yield* read(newJob(2))).toMatchObject({ errorCode: "queue_timeout", waitedMs: 1_000 })
      }),
    ),
  ],
}
