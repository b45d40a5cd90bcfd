import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { CallerTransactions, JobStore, type SignalOutcome, type SignalRequest } from "@kiln/core/ports"
import { claim, claimOne, create } from "../arrange.ts"
import { jobId, newJob } from "../fixtures.ts"
import { type CallerCheck, withoutWaiting } from "./CallerTransaction.ts"

const approved = (value: string): SignalRequest => ({ jobId: jobId(1), name: "approved", value })

const parkOnIt = Effect.gen(function* () {
  const store = yield* JobStore
  yield* create(newJob(1))
  const { job, token } = yield* claimOne()
  const park = { reason: "signal", subject: "approved" } as const
  yield* store.deferJobs([{ jobId: job.id, token, delayMs: 0, countsAsFailure: false, park }])
})

/** A claim may find the signal some time after the commit. */
const claimsIt: Effect.Effect<void, unknown, JobStore> = Effect.suspend(() =>
  Effect.flatMap(claim(), ({ claims }) =>
    claims.length > 0 ? Effect.void : Effect.andThen(Effect.sleep(50), claimsIt),
  ),
)

/** Signals in transactions of the embedding program. */
export const signals: ReadonlyArray<CallerCheck> = [
  {
    name: "a signal wakes its job exactly if the transaction commits, and locks nothing until then",
    concurrent: true,
    run: Effect.fnUntraced(function* (begin) {
      const store = yield* JobStore
      yield* parkOnIt
      const undone = yield* begin
      expect(yield* undone.signalJobs(approved("no"))).toEqual(["Accepted"])
      yield* undone.rollback
      expect(yield* store.listSignals(jobId(1))).toEqual([])
      const { commit, signalJobs } = yield* begin
      expect(yield* signalJobs(approved("yes"), approved("yes"), approved("later"))).toEqual<
        ReadonlyArray<SignalOutcome>
      >(["Accepted", "Repeated", "Superseded"])
      expect(yield* claim()).toMatchObject({ claims: [] })
      yield* commit
      yield* withoutWaiting("a claim of the signaled job", claimsIt)
      expect(yield* store.listSignals(jobId(1))).toMatchObject([{ name: "approved", value: "yes" }])
    }),
  },
  {
    name: "a signal to an unknown job, or by a handle that is no transaction, is refused",
    concurrent: false,
    run: Effect.fnUntraced(function* (begin) {
      const { signalJobs } = yield* begin
      expect(yield* signalJobs(approved("x"))).toEqual(["NotFound"])
      const callers = yield* CallerTransactions
      const exit = yield* Effect.exit(Effect.suspend(() => callers.signalJobs({}, [approved("x")])))
      expect(exit._tag).toBe("Failure")
    }),
  },
]
