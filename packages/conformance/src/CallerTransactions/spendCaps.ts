import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { capSpending, claimOne, complete, create, createTags, first, openAudioGate, spendingOf } from "../arrange.ts"
import { digest, jobId, keyId, newLiveJob, projectId } from "../fixtures.ts"
import { type CallerCheck, withoutWaiting } from "./CallerTransaction.ts"

// A live job costs at most 0.00015.
const [a, b] = [{ projectId: projectId(1) }, { projectId: projectId(2), keyId: keyId(2) }]

/** A cap of this many live jobs. */
const capOf = (jobs: number) => ({ day: `0.${String(15 * jobs).padStart(5, "0")}` })

/** No lock of a cap is held until a caller commits. */
export const spendCapsInTransactions: ReadonlyArray<CallerCheck> = [
  {
    name: "two open transactions that submit under the same caps in opposite order do not wait for each other",
    concurrent: true,
    seesOpen: true,
    run: Effect.fnUntraced(function* (begin) {
      yield* openAudioGate
      for (const { projectId: owner } of [a, b]) yield* capSpending(owner, capOf(2))
      const [one, two] = [yield* begin, yield* begin]
      const tags: Array<string> = []
      for (const [transaction, item] of [
        [one, newLiveJob(1, a)],
        [two, newLiveJob(2, b)],
        [one, newLiveJob(3, b)],
        [two, newLiveJob(4, a)],
        [one, newLiveJob(5, a)],
        [two, newLiveJob(6, b)],
      ] as const)
        tags.push(first(yield* withoutWaiting(`job ${item.id}`, transaction.createJobs(item)))._tag)
      expect(tags).toEqual([...Array<string>(4).fill("Created"), "SpendCapReached", "SpendCapReached"])
      yield* withoutWaiting("the second commit", two.commit)
      yield* one.commit
      expect(yield* spendingOf(projectId(1))).toMatchObject({ reserved: "0.0003" })
    }),
  },
  {
    name: "ordinary submissions under the same cap continue during an open transaction, whose reservation counts",
    concurrent: true,
    seesOpen: true,
    run: Effect.fnUntraced(function* (begin) {
      yield* openAudioGate
      yield* capSpending(projectId(1), capOf(3))
      const transaction = yield* begin
      yield* transaction.createJobs(newLiveJob(1))
      const tags = yield* withoutWaiting("others", createTags(newLiveJob(2), newLiveJob(3), newLiveJob(4)))
      expect(tags).toEqual(["Created", "Created", "SpendCapReached"])
      yield* transaction.commit
      expect(yield* spendingOf(projectId(1))).toMatchObject({ reserved: "0.00045" })
      for (let n = 0; n < 3; n++) yield* complete(yield* claimOne())
      expect(yield* spendingOf(projectId(1))).toMatchObject({ reserved: "0", day: "0.00045" })
    }),
  },
  {
    name: "a reservation comes back with a rollback, and if the job of its key was another's",
    concurrent: true,
    seesOpen: true,
    run: Effect.fnUntraced(function* (begin) {
      yield* openAudioGate
      yield* capSpending(projectId(1), capOf(2))
      const rolledBack = yield* begin
      yield* rolledBack.createJobs(newLiveJob(1), newLiveJob(2))
      expect(yield* createTags(newLiveJob(3))).toEqual(["SpendCapReached"])
      yield* rolledBack.rollback
      expect(yield* spendingOf(projectId(1))).toMatchObject({ reserved: "0" })
      const same = { idempotencyKey: "same", fingerprint: digest(9) }
      const [one, two] = [yield* begin, yield* begin]
      yield* one.createJobs(newLiveJob(4, same))
      const second = yield* Effect.forkChild(two.createJobs(newLiveJob(5, same)), { startImmediately: true })
      yield* Effect.sleep(50)
      yield* one.commit
      expect(first(yield* withoutWaiting("the second", Fiber.join(second)))).toMatchObject({
        _tag: "Replayed",
        job: { id: jobId(4) },
      })
      expect(yield* spendingOf(projectId(1))).toMatchObject({ reserved: "0.00015" })
      yield* two.commit
      expect(yield* createTags(newLiveJob(6), newLiveJob(7))).toEqual(["Created", "SpendCapReached"])
    }),
  },
  {
    name: "a submission that waits for the key of an open transaction holds up no other of its project",
    concurrent: true,
    seesOpen: true,
    run: Effect.fnUntraced(function* (begin) {
      yield* openAudioGate
      yield* capSpending(projectId(1), capOf(100))
      const same = { idempotencyKey: "same", fingerprint: digest(9), queueCap: 1_000 }
      const transaction = yield* begin
      yield* transaction.createJobs(newLiveJob(1, same))
      const waiting = yield* Effect.forkChild(createTags(newLiveJob(2, same)), { startImmediately: true })
      const others = Array.from({ length: 10 }, (_, n) => create(newLiveJob(10 + n, { queueCap: 1_000 })))
      for (const other of others) yield* withoutWaiting("another", other)
      yield* transaction.commit
      expect(yield* Fiber.join(waiting)).toEqual(["Replayed"])
    }),
  },
]
