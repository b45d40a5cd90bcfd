import * as Effect from "effect/Effect"
import { type AuditChange, Audited, type AuditEntry, AuditLog, changeMade, decodeObject } from "@kiln/core/ports"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

type NewEntry = Values<"audit", "at" | "actor" | "origin" | "action" | "subject" | "details">

const insertEntry = statement((given: Given<NewEntry>) =>
  query.insertInto("audit").values(assign(given, "at", "actor", "origin", "action", "subject", "details")),
)

const append = (tx: Transaction, { details, ...change }: AuditChange): void => {
  tx.run(insertEntry, { ...change, at: tx.now, details: JSON.stringify(details) })
}

/** Newest first. */
const entries = query
  .selectFrom("audit")
  .select(select("audit", "number", "at", "actor", "origin", "action", "subject", "details"))
  .orderBy("number", "desc")

const entriesBefore = statement(
  (given: Given<{ readonly from: number; readonly to: number; readonly before: number; readonly limit: number }>) =>
    entries
      .where("number", "<", given.before)
      .where("at", ">=", given.from)
      .where("at", "<", given.to)
      .limit(given.limit),
)

const lastEntry = statement((given: Given<{ readonly action: string }>) =>
  entries.where("action", "=", given.action).limit(1),
)

const entryOf = ({ details, ...entry }: RowOf<typeof entriesBefore>): AuditEntry => ({
  ...entry,
  details: decodeObject(details, `audit entry ${entry.number}`),
})

/** Returns the latest entry with this action. */
export const findLastEntry = (tx: Transaction, action: string): AuditEntry | undefined => {
  const row = tx.get(lastEntry, { action })
  return row && entryOf(row)
}

const deleteEntries = statement((given: Given<{ readonly by: number }>) =>
  query.deleteFrom("audit").where("at", "<=", given.by),
)

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
            if (made !== undefined) append(tx, made)
            return answer
          }),
    ),
})

export const makeSqliteAuditLog = (db: Database): AuditLog["Service"] =>
  AuditLog.of({
    append: (change) => db.write("AuditLog.append", (tx) => append(tx, change)),
    list: ({ after, from, limit, to }) =>
      db.read("AuditLog.list", (tx) =>
        tx.all(entriesBefore, { from, to, before: after ?? Number.MAX_SAFE_INTEGER, limit }).map(entryOf),
      ),
    prune: (olderThanMs) => db.write("AuditLog.prune", (tx) => tx.run(deleteEntries, { by: tx.now - olderThanMs })),
  })
