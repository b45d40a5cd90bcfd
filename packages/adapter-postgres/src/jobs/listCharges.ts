import { sql } from "kysely"
import type { LedgerPage, LedgerPart } from "@kiln/core/ports"
import { readCharges } from "@kiln/sql-store"
import type { Session } from "../connection/Session.ts"
import { type Given, query, statement, storeTime, whole } from "../Statement.ts"
import { runOn } from "../transactionsOf.ts"

interface LockRow {
  readonly virtualtransaction: string
}

/** Milliseconds that a listing waits for completions in progress before it ends at their earliest charge. */
const patienceMs = 250
const pauseMs = 10

const completeUntil = statement(() => query.selectFrom("closed_ledger").select("complete_until as completeUntil"))

/** Closes the ledger up to `to`, but after now and the last entry at the latest. A closed time never moves back. */
const closeLedger = statement((given: Given<{ to: number }>) =>
  query
    .updateTable("closed_ledger")
    .set((set) => ({
      closed_until: sql<number>`greatest(closed_until, least(${whole(given.to)}, greatest(${storeTime}, ${set
        .selectFrom("charges")
        .select((last) => last.fn.max("charged_at").as("last"))}) + 1))`,
    }))
    .returning("closed_until as closedUntil"),
)

const noteComplete = statement((given: Given<{ until: number }>) =>
  query
    .updateTable("closed_ledger")
    .set({ complete_until: given.until })
    .where("complete_until", "<", given.until)
    .where("closed_until", ">=", given.until),
)

/** Completions in progress, with the earliest time of their charges. The trigger `write_charge` takes this lock. */
const completionsUnderWay = statement(() =>
  query
    .selectFrom(sql<LockRow>`pg_locks`.as("lock"))
    .select([
      "lock.virtualtransaction as transaction",
      sql<number>`(lock.objid::bigint - 2147483648) * 1000`.as("earliest"),
    ])
    .where(sql<boolean>`lock.locktype = 'advisory' AND lock.objsubid = 2 AND lock.granted`)
    .where(
      sql<boolean>`lock.classid::bigint = ('"kiln".closed_ledger'::regclass::oid::bigint + 2147483648) % 4294967296`,
    )
    .where(sql<boolean>`lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())`),
)

/**
 * Closes the ledger, and then finds completions that may not have seen it. The statements commit separately, in this order; the
 * entries are read last and include completions that have ended by then.
 */
const closedBy = async (session: Session, to: number): Promise<number> => {
  if (((await session.get(completeUntil, {}))?.completeUntil ?? 0) >= to) return to
  const closedUntil = Math.min(to, (await session.get(closeLedger, { to }))?.closedUntil ?? 0)
  let underWay = await session.all(completionsUnderWay, {})
  for (let waitedMs = 0; underWay.length > 0 && waitedMs < patienceMs; waitedMs += pauseMs) {
    await pause(pauseMs)
    const now = new Set((await session.all(completionsUnderWay, {})).map(({ transaction }) => transaction))
    underWay = underWay.filter(({ transaction }) => now.has(transaction))
  }
  const until = underWay.reduce((earliest, completion) => Math.min(earliest, completion.earliest), closedUntil)
  await session.run(noteComplete, { until })
  return until
}

export const listCharges = async (session: Session, page: LedgerPage): Promise<LedgerPart> => {
  const until = await closedBy(session, page.to)
  return runOn(session, (from) => readCharges(from, page, until))
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
