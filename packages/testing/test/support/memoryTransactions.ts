import { Clock, Context, Effect, Layer, Scope } from "effect"
import { StoreUnavailable } from "@kiln/core/domain"
import {
  CallerTransactions,
  type CreateOutcome,
  type NewJob,
  type SignalOutcome,
  type SignalRequest,
  WakeUp,
} from "@kiln/core/ports"
import type { CallerPlace } from "@kiln/conformance"
import { createJobs } from "../../src/memory/jobs/createJobs.ts"
import { signalJobs } from "../../src/memory/jobs/fencedVerbs.ts"
import { decodeState, encodeState } from "../../src/memory/encodeState.ts"
import { emptyState, type MemoryState } from "../../src/memory/MemoryState.ts"
import { portsOf } from "../../src/memory/MemoryStores.ts"

/** A transaction over memory. Its writes are repeated, with the same times, when it commits. */
class MemoryTransaction {
  readonly made: Array<{ readonly job: NewJob; readonly at: number }> = []
  readonly signals: Array<{ readonly item: SignalRequest; readonly at: number }> = []
  readonly ended = Promise.withResolvers<void>()
}

/** Wrong in one way or another, to see that the suite notices. */
export interface Wrongs {
  /** Writes immediately, even if the transaction rolls back. */
  readonly atOnce?: boolean
  /** A refusal fails instead of being an outcome. */
  readonly throws?: boolean
  /** Transactions of one project wait for each other. */
  readonly waits?: boolean
  /** Delay of the notification about a commit, or a notification about the creation instead of the commit. */
  readonly wakesAfterMs?: number | "creation"
  /** Anything passes for a transaction. */
  readonly credulous?: boolean
  /** Discards the transaction's earlier writes. */
  readonly forgetful?: boolean
}

const lockNames = (job: NewJob, { waits }: Wrongs): ReadonlyArray<string> => [
  `${job.keyId} ${job.idempotencyKey}`,
  ...(waits === true ? [job.projectId] : []),
]

/** Decides on a copy of the committed state with this transaction's writes. */
const decide = (
  state: MemoryState,
  transaction: MemoryTransaction,
  jobs: ReadonlyArray<NewJob>,
  now: number,
  wrongs: Wrongs,
): ReadonlyArray<CreateOutcome> => {
  const seen = wrongs.atOnce === true ? state : decodeState(encodeState(state))
  if (wrongs.forgetful !== true) for (const { at, job } of transaction.made) createJobs(seen, [job], at)
  const outcomes = createJobs(seen, jobs, now)
  if (wrongs.throws === true && outcomes.some(({ _tag }) => _tag === "QueueFull"))
    throw new StoreUnavailable({ operation: "createJobs", cause: "refused" })
  const made = jobs.filter((_, n) => outcomes[n]?._tag === "Created")
  if (wrongs.atOnce !== true) transaction.made.push(...made.map((job) => ({ job, at: now })))
  return outcomes
}

const decideSignals = (
  state: MemoryState,
  { signals }: MemoryTransaction,
  items: ReadonlyArray<SignalRequest>,
  now: number,
): ReadonlyArray<SignalOutcome> => {
  const seen = decodeState(encodeState(state))
  for (const { at, item } of signals) signalJobs(seen, [item], at)
  const outcomes = signalJobs(seen, items, now)
  signals.push(...items.filter((_, n) => outcomes[n] === "Accepted").map((item) => ({ item, at: now })))
  return outcomes
}

/** Transactions over the memory stores, with locks by idempotency key: a double to try the suite on. */
export const memoryTransactions = (wrongs: Wrongs = {}): Effect.Effect<CallerPlace> =>
  Effect.gen(function* () {
    const state = emptyState()
    const scope = yield* Scope.make()
    const wakeUp = Context.get(yield* Layer.buildWithScope(WakeUp.layer, scope), WakeUp)
    const holders = new Map<string, MemoryTransaction>()
    const requireTransaction = (handle: unknown): MemoryTransaction => {
      if (handle instanceof MemoryTransaction) return handle
      if (wrongs.credulous === true) return new MemoryTransaction()
      throw new TypeError("this is no transaction")
    }
    const locked = (transaction: MemoryTransaction, jobs: ReadonlyArray<NewJob>): MemoryTransaction | undefined => {
      const names = jobs.flatMap((job) => lockNames(job, wrongs))
      const other = names
        .map((name) => holders.get(name))
        .find((holder) => holder !== undefined && holder !== transaction)
      if (other === undefined) for (const name of names) holders.set(name, transaction)
      return other
    }
    const end = (transaction: MemoryTransaction): void => {
      for (const [name, holder] of holders) if (holder === transaction) holders.delete(name)
      transaction.ended.resolve()
    }
    const callers = CallerTransactions.of({
      createJobs: (handle, jobs) =>
        Effect.gen(function* () {
          const transaction = requireTransaction(handle)
          for (let other = locked(transaction, jobs); other !== undefined; other = locked(transaction, jobs)) {
            const { promise } = other.ended
            yield* Effect.promise(() => promise)
          }
          if (wrongs.wakesAfterMs === "creation") yield* wakeUp.notify
          return decide(state, transaction, jobs, yield* Clock.currentTimeMillis, wrongs)
        }),
      signalJobs: (handle, items) =>
        Clock.clockWith((clock) =>
          Effect.sync(() => decideSignals(state, requireTransaction(handle), items, clock.currentTimeMillisUnsafe())),
        ),
      synchronous: {
        signalJobs: (handle, items) => decideSignals(state, requireTransaction(handle), items, Date.now()),
        createJobs: (handle, jobs) => decide(state, requireTransaction(handle), jobs, Date.now(), wrongs),
      },
    })
    const commit = (transaction: MemoryTransaction) => async (): Promise<void> => {
      for (const { at, job } of transaction.made) createJobs(state, [job], at)
      for (const { at, item } of transaction.signals) signalJobs(state, [item], at)
      end(transaction)
      if (wrongs.wakesAfterMs === undefined) Effect.runSync(wakeUp.notify)
      else if (wrongs.wakesAfterMs !== "creation") setTimeout(() => Effect.runSync(wakeUp.notify), wrongs.wakesAfterMs)
    }
    return {
      layer: Layer.succeedContext(
        portsOf(state).pipe(Context.add(WakeUp, wakeUp), Context.add(CallerTransactions, callers)),
      ),
      begin: async () => {
        const transaction = new MemoryTransaction()
        return { transaction, commit: commit(transaction), rollback: async () => end(transaction) }
      },
    }
  })
