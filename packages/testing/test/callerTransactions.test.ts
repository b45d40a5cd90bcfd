import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { callerChecks, callerTransactionsConformance, runCallerCheck } from "@kiln/conformance"
import { memoryTransactions, type Wrongs } from "./support/memoryTransactions.ts"

callerTransactionsConformance({
  name: "Memory",
  place: memoryTransactions(),
  concurrent: true,
  seesOpen: false,
  reason: "each decides on a copy",
})
callerTransactionsConformance({
  name: "Memory, synchronously",
  place: memoryTransactions(),
  through: "synchronous",
  concurrent: false,
  reason: "nothing can wait",
})

/** The failure of the check with this name prefix for a double with this defect. */
const verdictOf = Effect.fnUntraced(function* (beginning: string, wrong: Wrongs) {
  const checks = callerChecks.filter(({ name }) => name.startsWith(beginning))
  const exits = yield* Effect.forEach(checks, (check) =>
    Effect.exit(runCallerCheck(check, { place: memoryTransactions(wrong) })),
  )
  return exits.map((exit) => (Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "passed")).join()
})

const wrongs: ReadonlyArray<readonly [what: string, wrong: Wrongs, beginning: string, verdict: RegExp]> = [
  ["jobs that are there before the commit", { atOnce: true }, "after a commit", /expected true to be false/],
  ["jobs that outlive a rollback", { atOnce: true }, "after a rollback", /expected true to be false/],
  ["a retry that outlives a rollback", { atOnce: true }, "a retry takes", /to deeply equal/],
  ["a refusal that is a failure", { throws: true }, "every refusal", /StoreUnavailable|refused/],
  ["anything that passes for a transaction", { credulous: true }, "anything other than a transaction", /handle 0/],
  ["a transaction that forgets what it made", { forgetful: true }, "a repeat is replayed", /to deeply equal/],
  ["a wake-up that comes late", { wakesAfterMs: 80 }, "a commit wakes", /to be less than 50/],
]

/** Endless waits run in virtual time. */
const waiting: ReadonlyArray<readonly [what: string, wrong: Wrongs, beginning: string]> = [
  ["transactions of one project that wait for each other", { waits: true }, "two open transactions"],
  ["those that wait in a new project", { waits: true }, "nor do they"],
  ["those that wait with a queue cap", { waits: true }, "nor when they count"],
  ["a wake-up that comes with the creation alone", { wakesAfterMs: "creation" }, "a commit wakes"],
]

describe("the suite detects", () => {
  it.live.each(wrongs)("%s", ([, wrong, beginning, verdict]) =>
    Effect.gen(function* () {
      expect(yield* verdictOf(beginning, wrong)).toMatch(verdict)
    }),
  )

  it.effect.each(waiting)("%s", ([, wrong, beginning]) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(verdictOf(beginning, wrong))
      while (fiber.pollUnsafe() === undefined) {
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
        yield* TestClock.adjust(1_000)
      }
      expect(yield* Fiber.join(fiber)).toMatch(/ waits/)
    }),
  )
})
