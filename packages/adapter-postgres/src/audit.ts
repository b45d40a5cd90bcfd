import * as Effect from "effect/Effect"
import { type AuditChange, Audited, type AuditEntry, AuditLog, changeMade, decodeObject } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import type { Session, Transaction } from "./Session.ts"
import { ago, type Given, query, type RowOf, statement, wholeAge } from "./Statement.ts"

const insertEntry = statement(
  (
    given: Given<{
      now: number
      actor: string
      origin: string
      action: string
      subject: string | null
      details: string
    }>,
  ) =>
    query.insertInto("audit").values({
      at: given.now,
      actor: given.actor,
      origin: given.origin,
      action: given.action,
      subject: given.subject,
      details: given.details,
    }),
)

const append = async (tx: Transaction, { details, ...change }: AuditChange): Promise<void> => {
  await tx.run(insertEntry, { ...change, details: JSON.stringify(details), now: tx.now })
}

/** Newest first. */
const entries = query
  .selectFrom("audit")
  .select(["number", "at", "actor", "origin", "action", "subject", "details"])
  .orderBy("number", "desc")

const entriesBefore = statement((given: Given<{ from: number; to: number; before: number; limit: number }>) =>
  entries
    .where("number", "<", given.before)
    .where("at", ">=", given.from)
    .where("at", "<", given.to)
    .limit(given.limit),
)

const lastEntry = statement((given: Given<{ action: string }>) => entries.where("action", "=", given.action).limit(1))

const entryOf = ({ details, ...entry }: RowOf<typeof entriesBefore>): AuditEntry => ({
  ...entry,
  details: decodeObject(details, `audit entry ${entry.number}`),
})

/** Returns the latest entry with this action. */
export const findLastEntry = async (session: Session, action: string): Promise<AuditEntry | undefined> => {
  const row = await session.get(lastEntry, { action })
  return row && entryOf(row)
}

const deleteEntries = statement((given: Given<{ olderThanMs: number }>) =>
  query.deleteFrom("audit").where("at", "<=", ago(given.olderThanMs)),
)

/** Records the change that a transaction makes (`Audited`), and returns the verb's answer. */
export type RecordChange<A> = (tx: Transaction, answer: A) => Promise<A>

/** Runs a verb whose transaction passes its answer through `record`. */
export const recorded = <A, E>(run: (record: RecordChange<A>) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(Audited, (verb) =>
    run(async (tx, answer) => {
      const made = changeMade(verb, answer)
      if (made !== undefined) await append(tx, made)
      return answer
    }),
  )

/** A database whose transactions also record the change that they are part of. */
export const auditedDatabase = (db: Database): Pick<Database, "read" | "write"> => ({
  read: (operation, work) => db.read(operation, work),
  write: (operation, work) => recorded((record) => db.write(operation, async (tx) => record(tx, await work(tx)))),
})

export const makePostgresAuditLog = (db: Database): AuditLog["Service"] =>
  AuditLog.of({
    append: (change) => db.write("AuditLog.append", (tx) => append(tx, change)),
    list: ({ after, from, limit, to }) =>
      db.read("AuditLog.list", async (session) =>
        (await session.all(entriesBefore, { from, to, before: after ?? Number.MAX_SAFE_INTEGER, limit })).map(entryOf),
      ),
    prune: (age) => {
      const olderThanMs = wholeAge(age)
      return db.write("AuditLog.prune", (tx) => tx.run(deleteEntries, { olderThanMs }))
    },
  })
