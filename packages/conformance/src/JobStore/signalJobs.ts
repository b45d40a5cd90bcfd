import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { maxParkMs, type Parking, withSubmitted } from "@kiln/core/domain"
import { maxSignals } from "@kiln/core/rules"
import { type Claim, type ClaimRef, JobDirectory, JobStore } from "@kiln/core/ports"
import { advance, claim, claimOne, complete, create, createAndClaim, createDone, read } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, keyId, newJob, ownerOf, projectId, queueLimitMs } from "../fixtures.ts"

const step = "parts"

const childOf = (parent: number, n: number) =>
  newJob(n, { metadata: withSubmitted({}, { parent: { jobId: jobId(parent), step } }) })

const refOf = ({ job, token }: Claim): ClaimRef => ({ jobId: job.id, token })

const parkAs = Effect.fnUntraced(function* (park: Parking, ...claims: ReadonlyArray<ClaimRef>) {
  const store = yield* JobStore
  return yield* store.deferJobs(
    claims.map((ref) => ({ ...ref, delayMs: 1, countsAsFailure: true, record: undefined, park })),
  )
})

const onSignal: Parking = { reason: "signal", subject: "approved" }
const onChildren: Parking = { reason: "children", subject: step }

const signal = Effect.fnUntraced(function* (name: string, value: string | number = "yes", n = 1) {
  const [outcome] = yield* (yield* JobStore).signalJobs([{ jobId: jobId(n), name, value }])
  return outcome
})

const park1 = Effect.fnUntraced(function* (park: Parking) {
  const claimed = yield* createAndClaim()
  expect(yield* parkAs(park, refOf(claimed))).toEqual(["Written"])
  return claimed
})

/** Parked jobs, and the signals that wake them. */
export const signalJobs: Section = {
  name: "JobStore.signalJobs",
  checks: [
    check(
      "a parked job has no attempt, waits for no limit, and is claimable at its time, to the millisecond",
      Effect.gen(function* () {
        yield* advance(100)
        const claimed = yield* createAndClaim()
        yield* advance(50)
        const until = 3 * queueLimitMs
        expect(yield* parkAs({ reason: "sleep", subject: "night", until }, refOf(claimed))).toEqual(["Written"])
        expect(yield* read(newJob(1))).toMatchObject({
          status: "processing",
          held: false,
          attempts: 0,
          failures: 0,
          token: 2,
          ranMs: 50,
          waitedMs: 0,
          claimableAt: until,
          deadlineAt: until + queueLimitMs,
          phaseStartedAt: until,
        })
        expect((yield* (yield* JobDirectory).listWaits([jobId(1)]))[0]).toMatchObject([
          { reason: "sleep", subject: "night", cause: null, firstAttempt: 1, lastAttempt: 1, count: 1, firstAt: 150 },
        ])
        yield* advance(until - 151)
        expect(yield* (yield* JobStore).expireJobs(10)).toEqual([])
        expect(yield* claim()).toMatchObject({ claims: [], nextInMs: 1 })
        yield* advance(1)
        expect((yield* claimOne()).job).toMatchObject({
          attempts: 1,
          failures: 0,
          lostWorkers: 0,
          waitedMs: 0,
          ranMs: 50,
        })
        expect((yield* (yield* JobDirectory).listWaits([jobId(1)]))[0]).toEqual([])
      }),
    ),

    check(
      "without a time, only the event ends it, and at most a year",
      Effect.gen(function* () {
        yield* park1(onSignal)
        expect(yield* read(newJob(1))).toMatchObject({ claimableAt: maxParkMs })
      }),
    ),

    check(
      "a signal makes the job claimable at once, and its whole queue limit begins then",
      Effect.gen(function* () {
        yield* park1(onSignal)
        yield* advance(5_000)
        expect(yield* signal("other")).toBe("Accepted")
        expect(yield* claim()).toMatchObject({ claims: [] })
        expect(yield* signal("approved")).toBe("Accepted")
        expect(yield* read(newJob(1))).toMatchObject({
          token: 2,
          claimableAt: 5_000,
          phaseStartedAt: 5_000,
          deadlineAt: 5_000 + queueLimitMs,
        })
        expect((yield* claimOne()).job).toMatchObject({ id: jobId(1), attempts: 1, token: 3 })
      }),
    ),

    check(
      "a signal that comes first is kept, and a job that is parked on it goes on at once",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1))
        expect(yield* signal("approved", 7)).toBe("Accepted")
        yield* advance(10)
        const claimed = yield* claimOne()
        expect(yield* signal("more")).toBe("Accepted")
        expect(yield* parkAs({ ...onSignal, until: 99_999 }, refOf(claimed))).toEqual(["Written"])
        expect((yield* claimOne()).job.attempts).toBe(1)
        expect(yield* store.listSignals(jobId(1))).toEqual([
          { name: "approved", value: 7, at: 0 },
          { name: "more", value: "yes", at: 10 },
        ])
      }),
    ),

    check(
      "of several values the first counts, also in one batch, and a repeat is recognized after the end",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2))
        const of = (n: number, name: string, value: object) => ({ jobId: jobId(n), name, value: value as never })
        expect(
          yield* store.signalJobs([
            of(2, "a", { x: 1, y: [2] }),
            of(1, "a", { x: 1 }),
            of(2, "a", { y: [2], x: 1 }),
            of(2, "a", { x: 2 }),
            of(3, "a", {}),
          ]),
        ).toEqual(["Accepted", "Accepted", "Repeated", "Superseded", "NotFound"])
        yield* complete(yield* claimOne())
        expect(yield* signal("a", "new")).toBe("Superseded")
        expect(yield* store.signalJobs([of(1, "a", { x: 1 })])).toEqual(["Repeated"])
        expect(yield* signal("b")).toBe("Finished")
        expect(yield* store.listSignals(jobId(3))).toEqual([])
      }),
    ),

    check(
      "only for its owner, as far as one is given",
      Effect.gen(function* () {
        const store = yield* JobStore
        const job = newJob(1)
        yield* create(job)
        const from = (owner: object, name: string) =>
          store.signalJobs([{ jobId: job.id, name, value: 1, owner: { projectId: job.projectId, ...owner } }])
        expect(yield* from({ projectId: projectId(2) }, "a")).toEqual(["NotFound"])
        expect(yield* from({ keyId: keyId(2) }, "a")).toEqual(["NotFound"])
        expect(yield* from({ mode: "live" }, "a")).toEqual(["NotFound"])
        expect(yield* from({}, "a")).toEqual(["Accepted"])
        const { keyId: key, mode, projectId: project } = ownerOf(job)
        expect(yield* from({ projectId: project, keyId: key, mode }, "b")).toEqual(["Accepted"])
      }),
    ),

    check(
      `a job keeps ${maxSignals} of them`,
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2))
        const items = Array.from({ length: maxSignals }, (_, n) => ({ jobId: jobId(1), name: `${n}`, value: null }))
        expect(new Set(yield* store.signalJobs(items))).toEqual(new Set(["Accepted"]))
        expect(yield* signal("one more")).toBe("Full")
        expect(yield* signal("one more", "yes", 2), "those of another job do not count").toBe("Accepted")
        expect(yield* store.signalJobs(items.slice(0, 1))).toEqual(["Repeated"])
      }),
    ),

    check(
      "they are erased with the job's data, and go with its record",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2))
        for (const n of [1, 2]) {
          yield* signal("a", "secret", n)
          yield* complete(yield* claimOne())
        }
        yield* store.eraseJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])
        expect(yield* store.listSignals(jobId(1))).toEqual([])
        expect(yield* signal("a", "secret")).toBe("Finished")
        expect(yield* store.listSignals(jobId(2))).toHaveLength(1)
        yield* advance(10)
        expect(yield* store.expireData(5, 10)).toMatchObject({ count: 1 })
        expect(yield* store.listSignals(jobId(2))).toEqual([])
        yield* store.deleteJobs(5, 10)
        expect(yield* signal("a")).toBe("NotFound")
      }),
    ),

    check(
      "the end of the last child wakes its parent in the same step, however it ends",
      Effect.gen(function* () {
        const store = yield* JobStore
        const parent = yield* createAndClaim()
        yield* create(childOf(1, 2), childOf(1, 3), childOf(1, 4), newJob(5))
        expect(yield* parkAs(onChildren, refOf(parent))).toEqual(["Written"])
        const { claims } = yield* claim({ limit: 2 })
        yield* advance(100)
        yield* store.completeJobs(
          claims.slice(0, 1).map((one) => ({ ...refOf(one), output: {}, files: [], warningCode: null, charge: null })),
        )
        yield* store.failJobs(claims.slice(1).map((one) => ({ ...refOf(one), errorCode: "internal_error" })))
        expect(yield* read(newJob(1))).toMatchObject({ claimableAt: maxParkMs })
        yield* advance(100)
        yield* store.cancelJobs([jobId(4)])
        expect(yield* read(newJob(1))).toMatchObject({ claimableAt: 200, phaseStartedAt: 200, held: false, token: 2 })
        expect((yield* claim()).claims.map(({ job }) => job.id).toSorted()).toEqual([jobId(1), jobId(5)])
      }),
    ),

    check(
      "a parent whose children have all ended is not parked on them, and those of another step do not count",
      Effect.gen(function* () {
        yield* createDone(childOf(1, 2), 2)
        yield* create(newJob(1))
        const first = yield* claimOne()
        expect(yield* parkAs(onChildren, refOf(first))).toEqual(["Written"])
        const second = yield* claimOne()
        expect(second.job).toMatchObject({ id: jobId(1), attempts: 1, token: 3 })
        yield* create(newJob(3, { metadata: withSubmitted({}, { parent: { jobId: jobId(1), step: "others" } }) }))
        expect(yield* parkAs({ ...onChildren, until: 7_000 }, refOf(second))).toEqual(["Written"])
        // With a time it is a poll, which no event ends early.
        expect(yield* read(newJob(1))).toMatchObject({ claimableAt: 7_000 })
      }),
    ),

    check(
      "a batch that ends the children of several parents wakes each, and none twice",
      Effect.gen(function* () {
        const store = yield* JobStore
        yield* create(newJob(1), newJob(2))
        const { claims: parents } = yield* claim({ limit: 2 })
        yield* create(childOf(1, 3), childOf(2, 4), childOf(1, 5))
        expect(yield* parkAs(onChildren, ...parents.map(refOf))).toEqual(["Written", "Written"])
        const { claims } = yield* claim({ limit: 3 })
        expect(claims).toHaveLength(3)
        yield* store.completeJobs(
          claims.map((one) => ({ ...refOf(one), output: {}, files: [], warningCode: null, charge: null })),
        )
        const again = yield* claim()
        expect(again.claims.map(({ job }) => `${job.id} ${job.attempts}`).toSorted()).toEqual([
          `${jobId(1)} 1`,
          `${jobId(2)} 1`,
        ])
        expect(yield* claim()).toMatchObject({ claims: [] })
      }),
    ),

    check(
      "a job that is parked again waits for what it is parked on then",
      Effect.gen(function* () {
        yield* park1(onSignal)
        yield* advance(50)
        yield* signal("approved")
        const second = yield* claimOne()
        yield* advance(10)
        expect(yield* parkAs({ reason: "signal", subject: "paid" }, refOf(second))).toEqual(["Written"])
        expect(yield* read(newJob(1))).toMatchObject({ claimableAt: 60 + maxParkMs })
        expect((yield* (yield* JobDirectory).listWaits([jobId(1)]))[0]).toMatchObject([
          { reason: "signal", subject: "paid", firstAt: 60, lastAt: 60 },
        ])
        yield* signal("approved", "again")
        expect(yield* claim()).toMatchObject({ claims: [] })
        yield* signal("paid")
        expect((yield* claimOne()).job.id).toBe(jobId(1))
      }),
    ),

    check(
      "a parent that is parked again waits for the children that it has then",
      Effect.gen(function* () {
        const parent = yield* createAndClaim()
        yield* create(childOf(1, 2))
        yield* parkAs(onChildren, refOf(parent))
        yield* complete(yield* claimOne())
        const again = yield* claimOne()
        expect(again.job.id).toBe(jobId(1))
        yield* create(childOf(1, 3), childOf(1, 4), childOf(1, 5))
        expect(yield* parkAs(onChildren, refOf(again))).toEqual(["Written"])
        for (const child of (yield* claim()).claims) {
          expect(yield* read(newJob(1))).toMatchObject({ claimableAt: maxParkMs })
          yield* complete(child)
        }
        expect((yield* claimOne()).job.id).toBe(jobId(1))
      }),
    ),

    check(
      "a lost claim parks nothing, a repeat is recognized, and a woken job that was claimed is parked no longer",
      Effect.gen(function* () {
        const claimed = yield* createAndClaim()
        expect(yield* parkAs(onSignal, { jobId: jobId(1), token: 9 })).toEqual(["LeaseLost"])
        expect(yield* parkAs(onSignal, refOf(claimed))).toEqual(["Written"])
        expect(yield* parkAs({ ...onSignal, subject: "x" }, refOf(claimed))).toEqual(["Written"])
        expect((yield* (yield* JobDirectory).listWaits([jobId(1)]))[0]).toMatchObject([{ subject: "approved" }])
        yield* signal("approved")
        const second = yield* claimOne()
        yield* signal("x")
        expect(yield* read(newJob(1))).toMatchObject({ held: true, token: 3 })
        const store = yield* JobStore
        yield* store.deferJobs([{ ...refOf(second), delayMs: 5_000, countsAsFailure: true }])
        yield* signal("approved")
        expect(yield* read(newJob(1))).toMatchObject({ claimableAt: 5_000, attempts: 1, failures: 1 })
      }),
    ),
  ],
}
