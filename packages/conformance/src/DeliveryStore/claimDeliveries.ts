import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { withDelivery } from "@kiln/core/rules"
import { DeliveryStore, JobStore, type NewJob } from "@kiln/core/ports"
import { advance, claim, create, createAndClaim, createDone, createFailed, first, now } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { jobId, leaseDurationMs, newJob, queueLimitMs, runLimitMs } from "../fixtures.ts"

/** A job whose end is to be delivered. */
const marked = (n: number, overrides: Partial<NewJob> = {}): NewJob => {
  const job = newJob(n, overrides)
  return { ...job, metadata: withDelivery(job.metadata) }
}

const kinds = ["speech_synthesis"]
const leaseMs = 10_000

const claimDue = (request: { readonly kinds?: ReadonlyArray<string>; readonly limit?: number } = {}) =>
  Effect.flatMap(DeliveryStore, (store) =>
    store.claimDeliveries({ kinds, limit: 100, leaseDurationMs: leaseMs, ...request }),
  )

const claimedIds = (request?: Parameters<typeof claimDue>[0]) =>
  Effect.map(claimDue(request), (claimed) => claimed.map((delivery) => delivery.jobId).toSorted())

const settle = (
  delivery: { readonly jobId: NewJob["id"]; readonly token: number },
  retryInMs: number | null,
  counts = true,
) =>
  Effect.flatMap(DeliveryStore, (store) =>
    Effect.map(
      store.settleDeliveries([{ jobId: delivery.jobId, token: delivery.token, retryInMs, counts }]),
      (outcomes) => first(outcomes),
    ),
  )

const pending = Effect.flatMap(DeliveryStore, (store) => store.listDeliveries(100))

export const claimDeliveries: Section = {
  name: "DeliveryStore.claimDeliveries",
  checks: [
    check(
      "a marked job that is done or failed has a delivery, due from its end; other jobs have none",
      Effect.gen(function* () {
        yield* createDone(newJob(1), 1)
        yield* createFailed(newJob(2))
        yield* createDone(newJob(3, { metadata: { note: '{"kiln:on_finished":true}' } }), 3)
        const attached = { metadata: { "kiln:on_finished": true } }
        yield* createDone(newJob(8, { metadata: { "kiln:submitted": attached } }), 8)
        expect(yield* pending).toEqual([])
        yield* create(marked(4, { metadata: { 1: "a number as a name comes first", note: "é" } }))
        expect(yield* pending).toEqual([])
        expect(yield* claimDue()).toEqual([])
        yield* claim()
        yield* advance(5)
        const jobs = yield* JobStore
        yield* jobs.failJobs([{ jobId: jobId(4), token: 1, errorCode: "internal_error" }])
        const finishedAt = yield* now
        yield* createDone(marked(5), 5)
        expect(yield* pending).toEqual([
          { jobId: jobId(4), kind: "speech_synthesis", dueAt: finishedAt, attempts: 0, token: 0 },
          { jobId: jobId(5), kind: "speech_synthesis", dueAt: finishedAt, attempts: 0, token: 0 },
        ])
        expect(yield* claimedIds()).toEqual([jobId(4), jobId(5)])
      }),
    ),
    check(
      "a canceled job has a delivery, whether it was queued or running",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        yield* createAndClaim(marked(1))
        yield* create(marked(2))
        yield* jobs.cancelJobs([jobId(1), jobId(2), jobId(2)])
        expect(yield* claimedIds()).toEqual([jobId(1), jobId(2)])
      }),
    ),
    check(
      "a job that was too late has a delivery, whether it was queued or running",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        yield* createAndClaim(marked(1, { limits: { queueLimitMs, runLimitMs: 1_000 } }), { leaseDurationMs: 500 })
        yield* create(marked(2, { limits: { queueLimitMs: 1_000, runLimitMs } }))
        yield* advance(120_000)
        yield* claim()
        yield* jobs.expireJobs(10)
        yield* advance(120_000)
        yield* jobs.expireJobs(10)
        expect(yield* claimedIds()).toContain(jobId(2))
      }),
    ),
    check(
      "a job that lost its last worker has a delivery",
      Effect.gen(function* () {
        yield* createAndClaim(marked(1), { maxLostWorkers: 1 })
        yield* advance(leaseDurationMs)
        yield* claim({ maxLostWorkers: 1 })
        expect(yield* claimedIds()).toEqual([jobId(1)])
      }),
    ),
    check(
      "a repeated end makes one delivery, also after it was confirmed",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        const { job, token } = yield* createAndClaim(marked(1))
        const end = jobs.failJobs([{ jobId: job.id, token, errorCode: "content_rejected" }])
        yield* end
        yield* end
        const [delivery, ...others] = yield* claimDue()
        expect([delivery?.attempt, others]).toEqual([1, []])
        yield* settle(delivery ?? { jobId: job.id, token: 0 }, null)
        yield* end
        expect(yield* pending).toEqual([])
      }),
    ),
    check(
      "a claim holds until its lease ends, to the millisecond; then the next attempt has a higher token",
      Effect.gen(function* () {
        yield* createDone(marked(1), 1)
        const held = first(yield* claimDue())
        expect(held).toMatchObject({ jobId: jobId(1), kind: "speech_synthesis", attempt: 1 })
        expect(yield* claimDue()).toEqual([])
        yield* advance(leaseMs - 1)
        expect(yield* claimDue()).toEqual([])
        yield* advance(1)
        const again = first(yield* claimDue())
        expect(again.attempt).toBe(2)
        expect(again.token).toBeGreaterThan(held.token)
      }),
    ),
    check(
      "claims only these kinds, the ones that are due first, up to the limit",
      Effect.gen(function* () {
        for (const n of [3, 1, 2]) {
          yield* createDone(marked(n), n)
          yield* advance(10)
        }
        expect(yield* claimDue({ kinds: ["transcription"] })).toEqual([])
        expect(yield* claimDue({ kinds: [] })).toEqual([])
        expect(yield* claimedIds({ limit: 2, kinds: ["transcription", "speech_synthesis"] })).toEqual([
          jobId(1),
          jobId(3),
        ])
        expect(yield* claimedIds()).toEqual([jobId(2)])
      }),
    ),
    check(
      "of concurrent claims, each delivery is in one",
      Effect.gen(function* () {
        const jobs = Array.from({ length: 12 }, (_, n) => marked(n))
        yield* create(...jobs)
        const store = yield* JobStore
        yield* store.cancelJobs(jobs.map(({ id }) => id))
        const claims = yield* Effect.forEach([1, 2, 3, 4], () => claimDue({ limit: 5 }), { concurrency: "unbounded" })
        const ids = claims.flat().map((delivery) => delivery.jobId)
        expect(new Set(ids).size).toBe(ids.length)
        const rest = yield* claimDue()
        expect(ids.length + rest.length).toBe(12)
      }),
    ),
  ],
}

export const settleDeliveries: Section = {
  name: "DeliveryStore.settleDeliveries",
  checks: [
    check(
      "removes a delivery, postpones it, and gives back an attempt that does not count",
      Effect.gen(function* () {
        for (const n of [1, 2, 3]) yield* createDone(marked(n), n)
        const claimed = yield* claimDue()
        const [one, two, three] = [1, 2, 3].map((n) => claimed.find((delivery) => delivery.jobId === jobId(n)))
        if (one === undefined || two === undefined || three === undefined) throw new Error("expected three deliveries")
        expect([yield* settle(one, null), yield* settle(two, 20_000), yield* settle(three, 0, false)]).toEqual([
          "Written",
          "Written",
          "Written",
        ])
        expect(first(yield* claimDue())).toMatchObject({ jobId: jobId(3), attempt: 1 })
        yield* advance(19_999)
        expect(yield* claimedIds()).toEqual([jobId(3)])
        yield* advance(1)
        expect(first(yield* claimDue())).toMatchObject({ jobId: jobId(2), attempt: 2 })
      }),
    ),
    check(
      "a claim that was settled, or that another has replaced, writes nothing",
      Effect.gen(function* () {
        yield* createDone(marked(1), 1)
        const lost = first(yield* claimDue())
        yield* advance(leaseMs)
        const held = first(yield* claimDue())
        const before = yield* pending
        expect([yield* settle(lost, null), yield* settle(lost, 0)]).toEqual(["LeaseLost", "LeaseLost"])
        expect(yield* settle({ jobId: jobId(1), token: held.token + 1 }, null)).toBe("LeaseLost")
        expect(yield* settle({ jobId: jobId(9), token: 1 }, null)).toBe("LeaseLost")
        expect(yield* pending).toEqual(before)
        expect(yield* settle(held, 5_000)).toBe("Written")
        expect(yield* settle(held, null)).toBe("LeaseLost")
        expect(yield* pending).toHaveLength(1)
      }),
    ),
    check(
      "counts deliveries by kind, those that were called again, and since when the first is due",
      Effect.gen(function* () {
        const counts = Effect.flatMap(DeliveryStore, (store) => store.countDeliveries)
        expect(yield* counts).toEqual([])
        const jobs = yield* JobStore
        yield* create(marked(1), marked(2), marked(3), marked(4, { kind: "image_generation" }))
        yield* jobs.cancelJobs([1, 2, 3, 4].map(jobId))
        yield* advance(7_000)
        const counted = (kind: string, count: number, repeated: number, oldestDueMs: unknown) => ({
          kind,
          count,
          repeated,
          oldestDueMs,
        })
        const sinceTheEnd = expect.toSatisfy((ms: number) => ms >= 7_000 && ms < 60_000)
        expect(yield* counts).toEqual([
          counted("image_generation", 1, 0, sinceTheEnd),
          counted("speech_synthesis", 3, 0, sinceTheEnd),
        ])
        for (const call of [1, 2]) {
          const [one, two, three] = yield* claimDue()
          if (one === undefined || two === undefined || three === undefined) throw new Error(`${call}: not three`)
          expect(yield* counts).toContainEqual(counted("speech_synthesis", 3, call === 1 ? 0 : 2, 0))
          // One of the first calls does not count.
          yield* Effect.all([settle(one, 0), settle(two, 0), settle(three, 0, call === 2)])
        }
        const [held, confirmed] = yield* claimDue({ limit: 2 })
        if (held === undefined || confirmed === undefined) throw new Error("not two")
        yield* settle(confirmed, null)
        yield* settle(held, 60_000)
        expect(yield* counts).toEqual([
          counted("image_generation", 1, 0, sinceTheEnd),
          counted(
            "speech_synthesis",
            2,
            expect.any(Number),
            expect.toSatisfy((ms: number) => ms >= 0 && ms < 60_000),
          ),
        ])
      }),
    ),
    check(
      "a delivery goes with the record of its job",
      Effect.gen(function* () {
        const jobs = yield* JobStore
        yield* createDone(marked(1), 1)
        const held = first(yield* claimDue())
        yield* jobs.eraseJobs([{ jobId: jobId(1), principal: { ...newJob(1), scopes: [] } }])
        expect(yield* pending).toHaveLength(1)
        yield* advance(1_000)
        yield* jobs.deleteJobs(0, 10)
        expect(yield* pending).toEqual([])
        expect(yield* settle(held, 0)).toBe("LeaseLost")
      }),
    ),
  ],
}

const redeliver = (...numbers: ReadonlyArray<number>) =>
  Effect.flatMap(DeliveryStore, (store) =>
    store.redeliver(numbers.map((n) => ({ jobId: jobId(n), kind: "speech_synthesis" }))),
  )

export const redeliverSection: Section = {
  name: "DeliveryStore.redeliver",
  checks: [
    check(
      "makes a delivery that was confirmed or given up due again, which no earlier claim can settle",
      Effect.gen(function* () {
        yield* createDone(marked(1), 1)
        const confirmed = first(yield* claimDue())
        expect(yield* settle(confirmed, null)).toBe("Written")
        expect(yield* pending).toEqual([])
        yield* advance(5)
        expect(yield* redeliver(1)).toEqual(["Redelivered"])
        expect(yield* settle(confirmed, null)).toBe("LeaseLost")
        const again = first(yield* claimDue())
        expect(again).toMatchObject({ jobId: jobId(1), attempt: 1 })
        expect(again.token).toBeGreaterThan(confirmed.token)
        expect(yield* settle(confirmed, null)).toBe("LeaseLost")
        expect(yield* settle(again, null)).toBe("Written")
        expect(yield* claimDue()).toEqual([])
      }),
    ),
    check(
      "ends a long pause, and begins to count its calls again",
      Effect.gen(function* () {
        yield* createDone(marked(1), 1)
        yield* settle(first(yield* claimDue()), 3_600_000)
        expect(yield* claimDue()).toEqual([])
        expect(yield* redeliver(1)).toEqual(["Redelivered"])
        const again = first(yield* claimDue())
        expect(again.attempt).toBe(1)
        expect(yield* settle(again, 3_600_000)).toBe("Written")
      }),
    ),
    check(
      "leaves alone what may be in progress, or is due within a minute",
      Effect.gen(function* () {
        yield* createDone(marked(1), 1)
        yield* createDone(marked(2), 2)
        const held = first(yield* claimDue({ limit: 1 }))
        const before = yield* pending
        expect(yield* redeliver(1, 2, 1)).toEqual(["Pending", "Pending", "Pending"])
        expect(yield* pending).toEqual(before)
        expect(yield* redeliver()).toEqual([])
        expect(yield* settle(held, null)).toBe("Written")
      }),
    ),
  ],
}
