import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { JobStore, type NewJob } from "@kiln/core/ports"
import { claim, claimedNumbers, claimOne, complete, create, createTags, exists, first } from "../arrange.ts"
import { jobId, newJob, projectId } from "../fixtures.ts"
import { type Begin, type CallerCheck, withoutWaiting } from "./CallerTransaction.ts"

/** Opens two transactions that are open while both create jobs. */
const openBoth = Effect.fnUntraced(function* (begin: Begin, one: NewJob, two: NewJob) {
  const [a, b] = [yield* begin, yield* begin]
  expect(first(yield* a.createJobs(one))._tag).toBe("Created")
  expect(first(yield* withoutWaiting("the second transaction", b.createJobs(two)))._tag).toBe("Created")
  return [a, b] as const
})

/** Expects that both jobs run. */
const expectBothRun = Effect.fnUntraced(function* (one: NewJob, two: NewJob) {
  const runnable = [one, two].map(({ kind, kindVersion, mode }) => ({ kind, kindVersion, mode }))
  const { claims } = yield* claim({ runnable })
  expect(claims.map(({ job }) => job.id).toSorted()).toEqual([one.id, two.id].toSorted())
  for (const claimed of claims) yield* complete(claimed)
})

/** Open transactions are independent of each other. */
export const concurrent: ReadonlyArray<CallerCheck> = [
  {
    name: "two open transactions of one project and kind do not wait for each other, and both jobs run",
    concurrent: true,
    run: Effect.fnUntraced(function* (begin) {
      yield* create(newJob(9))
      yield* complete(yield* claimOne())
      const [a, b] = yield* openBoth(begin, newJob(1), newJob(2))
      // The later one first: neither commit may wait for the other either.
      yield* withoutWaiting("the second commit", b.commit)
      yield* a.commit
      yield* expectBothRun(newJob(1), newJob(2))
    }),
  },
  {
    name: "nor do they in a new project with an unused kind",
    concurrent: true,
    run: Effect.fnUntraced(function* (begin) {
      const fresh = { projectId: projectId(77), kind: "brand_new" }
      const [a, b] = yield* openBoth(begin, newJob(1, fresh), newJob(2, fresh))
      yield* withoutWaiting("the second commit", b.commit)
      yield* a.commit
      yield* expectBothRun(newJob(1, fresh), newJob(2, fresh))
    }),
  },
  {
    name: "nor when they count the jobs of a queue that has a cap",
    concurrent: true,
    run: Effect.fnUntraced(function* (begin) {
      const [a, b] = yield* openBoth(begin, newJob(1, { queueCap: 5 }), newJob(2, { queueCap: 5 }))
      yield* withoutWaiting("the second commit", b.commit)
      yield* a.commit
      expect(yield* createTags(newJob(3, { queueCap: 2 }))).toEqual(["QueueFull"])
    }),
  },
  {
    name: "if one rolls back, the other's job exists, even if both were the first of a new project",
    concurrent: true,
    run: Effect.fnUntraced(function* (begin) {
      const fresh = { projectId: projectId(77) }
      const [a, b] = yield* openBoth(begin, newJob(1, fresh), newJob(2, fresh))
      yield* a.rollback
      yield* b.commit
      expect([yield* exists(newJob(1, fresh)), yield* exists(newJob(2, fresh))]).toEqual([false, true])
      expect(claimedNumbers(yield* claim())).toEqual([2])
    }),
  },
  {
    name: "the installation continues during an open transaction: others create, claim and complete in the same lane",
    concurrent: true,
    run: Effect.fnUntraced(function* (begin) {
      yield* create(newJob(9))
      const transaction = yield* begin
      yield* transaction.createJobs(newJob(1))
      yield* withoutWaiting("a creation", create(newJob(2)))
      const { claims } = yield* withoutWaiting("a claim", claim())
      expect(claims.map(({ job }) => job.id).toSorted()).toEqual([jobId(2), jobId(9)])
      for (const claimed of claims) yield* withoutWaiting("a completion", complete(claimed))
      yield* transaction.commit
      expect(claimedNumbers(yield* claim())).toEqual([1])
    }),
  },
  {
    name: "of two with one idempotency key, the second gets the first's job if that commits, otherwise its own",
    concurrent: true,
    run: Effect.fnUntraced(function* (begin) {
      const store = yield* JobStore
      for (const [n, how] of (["commit", "rollback"] as const).entries()) {
        const same = { idempotencyKey: `same-${n}`, fingerprint: newJob(1).fingerprint }
        const [one, two] = [newJob(10 * n + 1, same), newJob(10 * n + 2, same)]
        const [a, b] = [yield* begin, yield* begin]
        yield* a.createJobs(one)
        const second = yield* Effect.forkChild(b.createJobs(two), { startImmediately: true })
        yield* a[how]
        const outcome = first(yield* withoutWaiting("the second, after the first's end,", Fiber.join(second)))
        yield* b.commit
        const found = yield* store.findByIdempotencyKey(one.keyId, same.idempotencyKey)
        const [tag, id] = how === "commit" ? ["Replayed", one.id] : ["Created", two.id]
        expect(outcome).toEqual({ _tag: tag, job: found })
        expect(found?.id).toBe(id)
      }
    }),
  },
]
