import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { type NewJob, WakeUp } from "@kiln/core/ports"
import { claimOne, complete, exists } from "../arrange.ts"
import { newJob } from "../fixtures.ts"
import { type CallerCheck, type OpenTransaction, withoutWaiting } from "./CallerTransaction.ts"

const rounds = 9
/** Maximum milliseconds from the caller's commit until a waiting worker sees the job. */
const wakesWithinMs = 50

/** Milliseconds that the transaction stays open, as real ones do: a notification sent at creation would be too early. */
const openForMs = 20

/** Waits like a worker: polls whenever it is woken, and returns when it saw the job. A notification may come too early. */
const seesWhenWoken = Effect.fnUntraced(function* (job: NewJob) {
  const wakeUp = yield* WakeUp
  do yield* wakeUp.wait
  while (!(yield* exists(job)))
  return performance.now()
})

const wakingMs = Effect.fnUntraced(function* (job: NewJob, { commit, createJobs }: OpenTransaction) {
  const waiter = yield* Effect.forkChild(seesWhenWoken(job), { startImmediately: true })
  yield* createJobs(job)
  yield* Effect.sleep(openForMs)
  yield* commit
  const committedAt = performance.now()
  return (yield* withoutWaiting("the waiting worker", Fiber.join(waiter))) - committedAt
})

/** Commits wake workers. */
export const wakeUp: ReadonlyArray<CallerCheck> = [
  {
    name: `a commit wakes a waiting worker within ${wakesWithinMs} ms, in the median of ${rounds}`,
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      const figures: Array<number> = []
      for (let n = 1; n <= rounds; n++) {
        figures.push(yield* wakingMs(newJob(n), yield* begin))
        yield* complete(yield* claimOne())
      }
      const median = figures.toSorted((a, b) => a - b)[Math.floor(rounds / 2)]
      expect(median, figures.join(", ")).toBeLessThan(wakesWithinMs)
    }),
  },
]
