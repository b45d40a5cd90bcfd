import type { JobId } from "@kiln/core/domain"
import { CallerTransactions, type StoreAdapter, storeAdapter, WakeUp } from "@kiln/core/ports"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { emptyState } from "../memory/MemoryState.ts"
import { portsOf } from "../memory/MemoryStores.ts"
import { makeMemoryTransactions, type MemoryTransactions } from "../memory/MemoryTransactions.ts"
import type { TestEngine, TestTransaction } from "./TestEngine.ts"

/** A memory store with transactions of the program. */
interface TransactionalStore {
  readonly adapter: StoreAdapter<object, object>
  /** Available once the adapter is open. */
  readonly transactions: () => MemoryTransactions & { readonly notify: () => void }
}

export const transactionalStore = (): TransactionalStore => {
  let opened: ReturnType<TransactionalStore["transactions"]> | undefined
  const layer = Layer.effectContext(
    Effect.gen(function* () {
      const wakeUp = Context.get(yield* Layer.build(WakeUp.layer), WakeUp)
      const state = emptyState()
      const transactions = makeMemoryTransactions(state, yield* Effect.clockWith(Effect.succeed))
      opened = { ...transactions, notify: () => Effect.runSync(wakeUp.notify) }
      return portsOf(state).pipe(Context.add(WakeUp, wakeUp), Context.add(CallerTransactions, transactions.callers))
    }),
  )
  return {
    adapter: storeAdapter<object, object>(layer),
    transactions: () => {
      if (opened === undefined) throw new TypeError("the store is not open")
      return opened
    },
  }
}

/** Returns `beginTransaction`. `created` is called with the jobs of each commit, and awaited by it. */
export const transactionVerbs = (
  { transactions }: TransactionalStore,
  created: (jobIds: ReadonlyArray<JobId>) => Promise<void>,
): Pick<TestEngine, "beginTransaction"> => ({
  beginTransaction: <Handle extends object>(handle?: Handle) => {
    const { begin, commit, notify, rollback } = transactions()
    const transaction: object = handle ?? {}
    const ends: TestTransaction = {
      commit: async () => {
        const jobIds = commit(transaction)
        notify()
        await created(jobIds)
      },
      rollback: async () => rollback(transaction),
    }
    begin(transaction)
    return Object.assign(transaction, ends) as Handle & TestTransaction
  },
})
