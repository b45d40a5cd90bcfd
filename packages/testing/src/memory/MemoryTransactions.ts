import type { JobId } from "@kiln/core/domain"
import {
  CallerTransactions,
  type CreateOutcome,
  type NewJob,
  type SignalOutcome,
  type SignalRequest,
} from "@kiln/core/ports"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { createJobs } from "./jobs/createJobs.ts"
import { signalJobs } from "./jobs/fencedVerbs.ts"
import { decodeState, encodeState } from "./encodeState.ts"
import { type MemoryState, storeTimeBy } from "./MemoryState.ts"

/** Something that a transaction has written. */
type Made = ({ readonly job: NewJob } | { readonly signal: SignalRequest }) & { readonly at: number }

const repeat = (state: MemoryState, made: Made): ReadonlyArray<JobId> => {
  if ("signal" in made) {
    signalJobs(state, [made.signal], made.at)
    return []
  }
  return createJobs(state, [made.job], made.at).flatMap((outcome) =>
    outcome._tag === "Created" ? [outcome.job.id] : [],
  )
}

/** A transaction that has not ended. */
class OpenTransaction {
  readonly made: Array<Made> = []
  readonly ended = Promise.withResolvers<void>()
}

/** The transactions that have used an idempotency key, or the name of a signal. */
class Locks {
  readonly #holders = new Map<string, OpenTransaction>()

  /** Takes these names. Returns another transaction that holds one of them, if there is one, and then takes none. */
  take(transaction: OpenTransaction, names: ReadonlyArray<string>): OpenTransaction | undefined {
    const held = names.map((name) => this.#holders.get(name))
    const other = held.find((one) => one !== undefined && one !== transaction)
    if (other === undefined) for (const name of names) this.#holders.set(name, transaction)
    return other
  }

  waitFor(transaction: OpenTransaction, names: ReadonlyArray<string>): Effect.Effect<void> {
    return Effect.suspend(() => {
      const other = this.take(transaction, names)
      if (other === undefined) return Effect.void
      const { promise } = other.ended
      return Effect.andThen(
        Effect.promise(() => promise),
        this.waitFor(transaction, names),
      )
    })
  }

  release(transaction: OpenTransaction): void {
    for (const [name, holder] of this.#holders) if (holder === transaction) this.#holders.delete(name)
  }
}

/** Decides on a copy of the state with what the transaction has written, and notes what it writes now. */
const decided = <Outcome>(
  {
    now,
    state,
    transaction,
  }: { readonly state: MemoryState; readonly transaction: OpenTransaction; readonly now: number },
  decide: (seen: MemoryState, now: number) => ReadonlyArray<Outcome>,
  written: (
    outcome: Outcome,
    index: number,
  ) => { readonly job: NewJob } | { readonly signal: SignalRequest } | undefined,
): ReadonlyArray<Outcome> => {
  const seen = decodeState(encodeState(state))
  for (const made of transaction.made) repeat(seen, made)
  const outcomes = decide(seen, now)
  for (const [index, outcome] of outcomes.entries()) {
    const made = written(outcome, index)
    if (made !== undefined) transaction.made.push({ ...made, at: now })
  }
  return outcomes
}

const keysOf = (jobs: ReadonlyArray<NewJob>) => jobs.map(({ idempotencyKey, keyId }) => `${keyId} ${idempotencyKey}`)

const namesOf = (items: ReadonlyArray<SignalRequest>) => items.map(({ jobId, name }) => `signal ${jobId} ${name}`)

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
  const locks = new Locks()

  const transactionOf = (handle: unknown): OpenTransaction => {
    const found = typeof handle === "object" && handle !== null ? open.get(handle) : undefined
    if (found === undefined)
      throw new TypeError(
        "transaction must be one that beginTransaction() of the test engine returned and that is open",
      )
    return found
  }
  const decide = (transaction: OpenTransaction, jobs: ReadonlyArray<NewJob>): ReadonlyArray<CreateOutcome> =>
    decided(
      { state, transaction, now: storeTimeBy(clock) },
      (seen, now) => createJobs(seen, jobs, now),
      ({ _tag }, index) => (_tag === "Created" ? jobs[index] && { job: jobs[index] } : undefined),
    )
  const decideSignals = (
    transaction: OpenTransaction,
    items: ReadonlyArray<SignalRequest>,
  ): ReadonlyArray<SignalOutcome> =>
    decided(
      { state, transaction, now: storeTimeBy(clock) },
      (seen, now) => signalJobs(seen, items, now),
      (outcome, index) => (outcome === "Accepted" ? items[index] && { signal: items[index] } : undefined),
    )
  const end = (handle: object): OpenTransaction => {
    const transaction = transactionOf(handle)
    open.delete(handle)
    locks.release(transaction)
    transaction.ended.resolve()
    return transaction
  }
  return {
    callers: CallerTransactions.of({
      createJobs: Effect.fnUntraced(function* (handle, jobs) {
        const transaction = transactionOf(handle)
        yield* locks.waitFor(transaction, keysOf(jobs))
        return decide(transaction, jobs)
      }),
      signalJobs: Effect.fnUntraced(function* (handle, items) {
        const transaction = transactionOf(handle)
        yield* locks.waitFor(transaction, namesOf(items))
        return decideSignals(transaction, items)
      }),
      synchronous: {
        createJobs: (handle, jobs) => {
          const transaction = transactionOf(handle)
          if (locks.take(transaction, keysOf(jobs)) !== undefined)
            throw new TypeError(
              "another open transaction uses the same idempotency key; a synchronous call cannot wait",
            )
          return decide(transaction, jobs)
        },
        signalJobs: (handle, items) => {
          const transaction = transactionOf(handle)
          if (locks.take(transaction, namesOf(items)) !== undefined)
            throw new TypeError("another open transaction signals the same name; a synchronous call cannot wait")
          return decideSignals(transaction, items)
        },
      },
    }),
    begin: (handle) => {
      if (open.has(handle)) throw new TypeError("this object already has an open transaction")
      open.set(handle, new OpenTransaction())
    },
    commit: (handle) => end(handle).made.flatMap((made) => repeat(state, made)),
    rollback: (handle) => void end(handle),
  }
}
