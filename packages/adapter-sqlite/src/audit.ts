import * as Effect from "effect/Effect"
import { Audited, changeMade } from "@kiln/core/ports"
import { appendEntry } from "@kiln/sql-store"
import type { Database } from "./Database.ts"
import { runIn } from "./transactionsOf.ts"

/** A database whose transactions also record the change that they are part of (`Audited`). */
export const auditedDatabase = (db: Database): Pick<Database, "read" | "write"> => ({
  read: (operation, work) => db.read(operation, work),
  write: (operation, work) =>
    Effect.flatMap(Audited, (verb) =>
      verb === undefined
        ? db.write(operation, work)
        : db.write(operation, (tx) => {
            const answer = work(tx)
            const made = changeMade(verb, answer)
            if (made !== undefined) runIn(tx, (common) => appendEntry(common, made))
            return answer
          }),
    ),
})
