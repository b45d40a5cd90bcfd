import type { CallerTransaction } from "@kiln/conformance"

const rolledBack = new Error("rolled back by the test")

/** Holds open a transaction of a library that takes a function and commits when it returns. */
export const heldTransaction = async <T>(
  run: (work: (tx: T) => Promise<void>) => Promise<unknown>,
  handleOf: (tx: T) => unknown,
): Promise<CallerTransaction> => {
  const begun = Promise.withResolvers<T>()
  const ended = Promise.withResolvers<void>()
  const done = run((tx) => {
    begun.resolve(tx)
    return ended.promise
  })
  done.catch(begun.reject)
  return {
    transaction: handleOf(await begun.promise),
    commit: async () => {
      ended.resolve()
      await done
    },
    rollback: async () => {
      ended.reject(rolledBack)
      await done.catch((error: unknown) => {
        if (error !== rolledBack) throw error
      })
    },
  }
}
