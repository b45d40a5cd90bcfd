import * as Effect from "effect/Effect"
import { anyCap, reserve, unreserve } from "../reservations.ts"
import { addUp, lockSpending, noSpending } from "../spending.ts"
import type { Meanwhile } from "./createInCallers.ts"
import type { Steps } from "./insideTransaction.ts"

/** Reserves on a connection of kiln's, under locks of the caps that end before the call returns. */
export const reservingMeanwhile = (db: Steps, operation: string): Pick<Meanwhile, "reserve" | "unreserve"> => ({
  reserve: async (owners, transaction, judge) => {
    if (!(await Effect.runPromise(db.read(operation, (session) => anyCap(session, owners))))) return judge(noSpending)
    const reserving = db.write(operation, async (tx) => {
      const spending = await lockSpending(tx, owners)
      const judged = judge(spending)
      await reserve(tx, judged.reservations, transaction)
      await addUp(tx, spending)
      return judged
    })
    return Effect.runPromise(reserving)
  },
  unreserve: async (reservations) => {
    await Effect.runPromise(db.write(operation, (tx) => unreserve(tx, reservations)))
  },
})
