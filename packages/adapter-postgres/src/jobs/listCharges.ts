import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import { decodeLineItems, type LedgerEntry, type LedgerPage, type LedgerPart } from "@kiln/core/ports"
import type { Session } from "../Session.ts"
import { type Given, plenty, query, type RowOf, statement, storeTime, whole } from "../Statement.ts"

interface LockRow {
  readonly virtualtransaction: string
}

/** Entries after a position in the index, in its order. */
const chargesAfter = statement((given: Given<{ time: number; jobId: JobId | ""; to: number; limit: number }>) =>
  query
    .selectFrom("charges")
    .innerJoin(plenty, (join) => join.onTrue())
    .select([
      "job_id as jobId",
      "project_id as projectId",
      "key_id as keyId",
      "kind",
      "currency",
      "amount",
      "line_items as lineItems",
      "charged_at as chargedAt",
    ])
    .where(sql<boolean>`(charged_at, job_id) > (${given.time}, ${given.jobId})`)
    .where("charged_at", "<", given.to)
    .orderBy("charged_at")
    .orderBy("job_id")
    .limit(given.limit),
)

const entryOf = ({ amount, currency, lineItems, ...entry }: RowOf<typeof chargesAfter>): LedgerEntry => ({
  ...entry,
  charge: { currency, amount, lineItems: decodeLineItems(lineItems, `the charge of ${entry.jobId}`) },
})

/** The empty id sorts before every id of the same time. */
const placeBefore = ({ after, from }: LedgerPage) =>
  after === null || after.chargedAt < from
    ? { time: from, jobId: "" as const }
    : { time: after.chargedAt, jobId: after.jobId }

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
  const rows = await session.all(chargesAfter, { ...placeBefore(page), to: until, limit: page.limit })
  return { entries: rows.map(entryOf), until }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
