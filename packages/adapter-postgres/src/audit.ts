import * as Effect from "effect/Effect"
import { Audited, changeMade } from "@kiln/core/ports"
import { appendEntry } from "@kiln/sql-store"
import type { Database } from "./Database.ts"
import type { Transaction } from "./Session.ts"
import { runOn } from "./transactionsOf.ts"

/** Records the change that a transaction makes (`Audited`), and returns the verb's answer. */
export type RecordChange<A> = (tx: Transaction, answer: A) => Promise<A>

/** Runs a verb whose transaction passes its answer through `record`. */
export const recorded = <A, E>(run: (record: RecordChange<A>) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(Audited, (verb) =>
    run(async (tx, answer) => {
      const made = changeMade(verb, answer)
      if (made !== undefined) await runOn(tx, (common) => appendEntry(common, made))
      return answer
    }),
  )

/** A database whose transactions also record the change that they are part of. */
export const auditedDatabase = (db: Database): Pick<Database, "read" | "write"> => ({
  read: (operation, work) => db.read(operation, work),
  write: (operation, work) => recorded((record) => db.write(operation, async (tx) => record(tx, await work(tx)))),
})
