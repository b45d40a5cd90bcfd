import { type AuditChange, type AuditEntry, AuditLog } from "@kiln/core/ports"
import { decodeObject } from "./storedJson.ts"
import { assign } from "./column.ts"
import { select, type Values } from "./columns.ts"
import { type Program, type Sql, type Transactions, wholeAge } from "./Sql.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"

type NewEntry = Values<"audit", "at" | "actor" | "origin" | "action" | "subject" | "details">

const insertEntry = statement((given: Given<NewEntry>) =>
  query.insertInto("audit").values(assign(given, "at", "actor", "origin", "action", "subject", "details")),
)

/** Records a change, in the transaction that makes it. */
export function* appendEntry(tx: Sql, { details, ...change }: AuditChange): Program<void> {
  yield* tx.run(insertEntry, { ...change, at: yield* tx.now(), details: JSON.stringify(details) })
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
export function* findLastEntry(tx: Sql, action: string): Program<AuditEntry | undefined> {
  const row = yield* tx.get(lastEntry, { action })
  return row && entryOf(row)
}

const deleteEntries = statement((given: Given<{ readonly by: number }>) =>
  query.deleteFrom("audit").where("at", "<=", given.by),
)

export const makeAuditLog = (db: Transactions): AuditLog["Service"] =>
  AuditLog.of({
    append: (change) => db.write("AuditLog.append", (tx) => appendEntry(tx, change)),
    list: ({ after, from, limit, to }) =>
      db.read("AuditLog.list", function* (tx) {
        const given = { from, to, before: after ?? Number.MAX_SAFE_INTEGER, limit }
        return (yield* tx.all(entriesBefore, given)).map(entryOf)
      }),
    prune: (olderThanMs) =>
      db.write("AuditLog.prune", function* (tx) {
        return yield* tx.run(deleteEntries, { by: (yield* tx.now()) - wholeAge(olderThanMs) })
      }),
  })
