import type { JobId } from "@kiln/core/domain"
import { CallerTransactions, type CreateOutcome, type NewJob } from "@kiln/core/ports"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { createJobs } from "./jobs/createJobs.ts"
import { decodeState, encodeState, type MemoryState, storeTimeBy } from "./MemoryState.ts"

/** A transaction that has not ended. */
class OpenTransaction {
  readonly made: Array<{ readonly job: NewJob; readonly at: number }> = []
  readonly ended = Promise.withResolvers<void>()
}

/** Transactions of a program over memory stores. Its handles are any objects. */
export interface MemoryTransactions {
  readonly callers: CallerTransactions["Service"]
  /** Begins a transaction with this handle. Throws `TypeError` if it has one that has not ended. */
  readonly begin: (handle: object) => void
  /** Writes what the transaction created, and returns the ids of the new jobs. Throws `TypeError` if it has ended. */
  readonly commit: (handle: object) => ReadonlyArray<JobId>
  /** Ends the transaction without a trace. Throws `TypeError` if it has ended. */
  readonly rollback: (handle: object) => void
}

/**
 * Creates transactions over a state. Each decides on a copy of the committed state with its own writes, which are repeated, with the
 * same times, when it commits. Two that use the same idempotency key wait for each other; synchronous ones cannot, and throw.
 */
export const makeMemoryTransactions = (state: MemoryState, clock: Clock.Clock): MemoryTransactions => {
  const open = new WeakMap<object, OpenTransaction>()
  const holders = new Map<string, OpenTransaction>()

  const transactionOf = (handle: unknown): OpenTransaction => {
    const found = typeof handle === "object" && handle !== null ? open.get(handle) : undefined
    if (found === undefined)
      throw new TypeError(
        "transaction must be one that beginTransaction() of the test engine returned and that is open",
      )
    return found
  }
  /** Locks the keys of these jobs. Returns a transaction that holds one of them. */
  const locked = (transaction: OpenTransaction, jobs: ReadonlyArray<NewJob>): OpenTransaction | undefined => {
    const names = jobs.map(({ idempotencyKey, keyId }) => `${keyId} ${idempotencyKey}`)
    const other = names.map((name) => holders.get(name)).find((one) => one !== undefined && one !== transaction)
    if (other === undefined) for (const name of names) holders.set(name, transaction)
    return other
  }
  const decide = (transaction: OpenTransaction, jobs: ReadonlyArray<NewJob>): ReadonlyArray<CreateOutcome> => {
    const now = storeTimeBy(clock)
    const seen = decodeState(encodeState(state))
    for (const { at, job } of transaction.made) createJobs(seen, [job], at)
    const outcomes = createJobs(seen, jobs, now)
    transaction.made.push(
      ...jobs.filter((_, index) => outcomes[index]?._tag === "Created").map((job) => ({ job, at: now })),
    )
    return outcomes
  }
  const end = (handle: object): OpenTransaction => {
    const transaction = transactionOf(handle)
    open.delete(handle)
    for (const [name, holder] of holders) if (holder === transaction) holders.delete(name)
    transaction.ended.resolve()
    return transaction
  }
  return {
    callers: CallerTransactions.of({
      createJobs: Effect.fnUntraced(function* (handle, jobs) {
        const transaction = transactionOf(handle)
        for (let other = locked(transaction, jobs); other !== undefined; other = locked(transaction, jobs)) {
          const { promise } = other.ended
          yield* Effect.promise(() => promise)
        }
        return decide(transaction, jobs)
      }),
      synchronous: {
        createJobs: (handle, jobs) => {
          const transaction = transactionOf(handle)
          if (locked(transaction, jobs) !== undefined)
            throw new TypeError(
              "another open transaction uses the same idempotency key; a synchronous call cannot wait",
            )
          return decide(transaction, jobs)
        },
      },
    }),
    begin: (handle) => {
      if (open.has(handle)) throw new TypeError("this object already has an open transaction")
      open.set(handle, new OpenTransaction())
    },
    commit: (handle) =>
      end(handle).made.flatMap(({ at, job }) =>
        createJobs(state, [job], at).flatMap((outcome) => (outcome._tag === "Created" ? [outcome.job.id] : [])),
      ),
    rollback: (handle) => void end(handle),
  }
}
