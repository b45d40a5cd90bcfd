import { sql } from "kysely"
import type { JobId, SpendCap, Spending, SpendOwner } from "@kiln/core/domain"
import { type SpendEntry, spendingOf, startOfPeriod } from "@kiln/core/rules"
import type { LedgerPage, LedgerPart, NewJob } from "@kiln/core/ports"
import { listCaps, readCharges, type StoredCap, writeCap } from "@kiln/sql-store"
import { batchStatement, type Given, type ItemOf, query, statement, storeTime, text, whole } from "./Statement.ts"
import type { Session, Transaction } from "./connection/Session.ts"
import { readTime, runOn } from "./transactionsOf.ts"

type Owner = { owner: SpendOwner }

/**
 * Whether the caller's transaction of a reservation had ended when this statement's snapshot was taken, so that its job, if it committed one,
 * is in the same snapshot. A transaction that would begin later belongs to another server, from which the tables were copied.
 */
const callerHasEnded = sql<boolean>`(pg_visible_in_snapshot(spending.caller_xid, pg_current_snapshot())
  OR spending.caller_xid >= pg_snapshot_xmax(pg_current_snapshot()))`

/** Whether the job of a reservation exists. */
const hasJob = sql<boolean>`EXISTS (SELECT FROM "kiln".jobs WHERE jobs.id = spending.entry)`

/** Number of charged entries from which an owner's are added up by day, so that reading them stays cheap. More than two months have days. */
const mostCharged = 200

/** The owners whose spend caps decide about these items. */
export const cappedOwners = (items: ReadonlyArray<NewJob>): ReadonlyArray<SpendOwner> =>
  items.flatMap(({ gate, keyId, projectId }) => (gate !== null && gate.price !== null ? [keyId, projectId] : []))

/** Reserving for an owner is a matter of one transaction at a time. Locks in the order of the ids to avoid deadlocks. */
const lockCaps = batchStatement({ owner: text<SpendOwner>() }, (item) =>
  query
    .selectFrom("spend_caps")
    .innerJoin(item, (join) => join.onRef("item.owner", "=", "spend_caps.owner"))
    .select(["spend_caps.owner", "spend_caps.currency", "spend_caps.day", "spend_caps.month"])
    .orderBy("spend_caps.owner")
    .forNoKeyUpdate("spend_caps"),
)

const dayMs = sql<number>`86400000::bigint`

/** The beginning of the day of a charge; NULL for reservations. */
const dayOf = (column: string) => sql<number | null>`${sql.ref(column)} / ${dayMs} * ${dayMs}`

const exactSum = sql<string>`trim_scale(sum(amount::numeric))::text`

/** Added up by day and currency. A reservation whose transaction was rolled back does not count. */
const sums = batchStatement({ owner: text<SpendOwner>() }, (item) =>
  query
    .selectFrom("spending")
    .innerJoin(item, (join) => join.onRef("item.owner", "=", "spending.owner"))
    .select((of) => [
      "spending.owner",
      "spending.currency",
      dayOf("spending.charged_at").as("chargedAt"),
      exactSum.as("amount"),
      of.fn.countAll<number>().as("entries"),
    ])
    .where(sql<boolean>`(spending.caller_xid IS NULL OR NOT ${callerHasEnded} OR ${hasJob})`)
    .groupBy(["spending.owner", "spending.currency", dayOf("spending.charged_at")]),
)

/** The caps of some owners, with what counts against them when they were locked. */
export interface ReadSpending {
  readonly caps: ReadonlyArray<StoredCap>
  readonly sums: ReadonlyArray<SpendEntry & Owner & { readonly entries: number }>
}

export const noSpending: ReadSpending = { caps: [], sums: [] }

/** Locks the caps of these owners until the transaction ends, and reads what counts against them. Owners without a cap cost nothing more. */
export const lockSpending = async (session: Session, owners: ReadonlyArray<SpendOwner>): Promise<ReadSpending> => {
  const items = [...new Set(owners)].map((owner) => ({ owner }))
  // The second statement has a later snapshot than the one that has waited for the locks.
  const [caps, read] = await Promise.all([session.batch(lockCaps, items), session.batch(sums, items)])
  return { caps, sums: read }
}

/** Returns each cap with what counts against it at a time, by owner. */
export const spendingAt = ({ caps, sums: read }: ReadSpending, now: number): Map<SpendOwner, Spending> => {
  const entries = Map.groupBy(read, ({ owner }) => owner)
  return new Map(caps.map(({ owner, ...cap }) => [owner, spendingOf(owner, cap, entries.get(owner) ?? [], now)]))
}

export const listSpending = async (session: Session): Promise<ReadonlyArray<Spending>> => {
  const [caps, now] = await Promise.all([runOn(session, listCaps), readTime(session)])
  const read = await session.batch(sums, caps)
  return [...spendingAt({ caps, sums: read }, now).values()]
}

/** Replaces the charged entries of an owner by one for each day and currency. One statement, so none is missed that is added meanwhile. */
const addUpOwner = batchStatement({ owner: text<SpendOwner>() }, (item, given: Given<{ since: number }>) =>
  query
    .with("removed", () =>
      query
        .deleteFrom("spending")
        .using(item)
        .whereRef("spending.owner", "=", "item.owner")
        .where("spending.charged_at", "is not", null)
        .returning(["spending.owner", "spending.currency", "spending.amount", dayOf("spending.charged_at").as("day")]),
    )
    .insertInto("spending")
    .columns(["owner", "entry", "currency", "amount", "charged_at"])
    .expression((from) =>
      from
        .selectFrom("removed" as never)
        .select([
          sql<SpendOwner>`owner`.as("owner"),
          sql<string>`'day ' || day || ' ' || currency`.as("entry"),
          sql<string>`currency`.as("currency"),
          exactSum.as("amount"),
          sql<number>`day`.as("day"),
        ])
        .where(sql<boolean>`day >= ${whole(given.since)}`)
        .groupBy(sql`owner, day, currency`),
    ),
)

/** Adds up the entries of owners that have many. Entries before the previous month count in no period any more. */
export const addUp = async (tx: Transaction, { sums: read }: ReadSpending): Promise<void> => {
  const counts = new Map<SpendOwner, number>()
  for (const { chargedAt, entries, owner } of read)
    if (chargedAt !== null) counts.set(owner, (counts.get(owner) ?? 0) + entries)
  const crowded = [...counts].filter(([, count]) => count >= mostCharged).map(([owner]) => ({ owner }))
  await tx.runBatch(addUpOwner, crowded, { since: startOfPeriod("month", startOfPeriod("month", tx.now) - 1) })
}

const deleteCharged = statement((given: Given<Owner>) =>
  query.deleteFrom("spending").where("owner", "=", given.owner).where("charged_at", "is not", null),
)

/** The charges of a project or a key, from the ledger. */
export const insertCharged = statement((given: Given<Owner & { since: number }>) =>
  query
    .insertInto("spending")
    .columns(["owner", "entry", "currency", "amount", "charged_at"])
    .expression(
      query
        .selectFrom((from) =>
          from
            .selectFrom("charges")
            .select(["currency", "amount", dayOf("charged_at").as("day")])
            .where("charged_at", ">=", given.since)
            .where(sql<boolean>`(project_id = ${given.owner} OR key_id = ${given.owner})`)
            .as("charged"),
        )
        .select([
          sql<SpendOwner>`${given.owner}::text`.as("owner"),
          sql<string>`'day ' || day || ' ' || currency`.as("entry"),
          "charged.currency",
          exactSum.as("amount"),
          "charged.day",
        ])
        .groupBy(["charged.day", "charged.currency"]),
    ),
)

const lockCharges = statement(() => query.selectNoFrom(sql`"kiln".lock_charges()`.as("locked")))

/**
 * The ledger says what was charged before there was a cap. Locking it waits for completions that did not see the cap, and those that
 * wait for the lock will see it: each charge is counted once. Reservations stay until their jobs end.
 */
export const setSpendCap = async (tx: Transaction, owner: SpendOwner, cap: SpendCap | null): Promise<void> => {
  await runOn(tx, (common) => writeCap(common, owner, cap))
  await tx.get(lockCharges, {})
  await tx.run(deleteCharged, { owner })
  if (cap !== null) await tx.run(insertCharged, { owner, since: startOfPeriod("month", tx.now) })
}

// Reservations

const reservation = { owner: text<SpendOwner>(), entry: text(), currency: text(), amount: text() }

/** The amount of a new job that counts against the budget of one owner. */
export type Reservation = ItemOf<typeof reservation>

const takeTurn = batchStatement({ owner: text<SpendOwner>() }, (item) =>
  query
    .updateTable("spend_caps")
    .from(item)
    .set({ turns: sql`turns + 1` })
    .whereRef("spend_caps.owner", "=", "item.owner"),
)

const insertReservations = batchStatement(reservation, (item, given: Given<{ transaction: string | null }>) =>
  query
    .insertInto("spending")
    .columns(["owner", "entry", "currency", "amount", "caller_xid"])
    .expression(
      query
        .selectFrom(item)
        .select([
          "item.owner",
          "item.entry",
          "item.currency",
          "item.amount",
          sql<string>`${given.transaction}::text::xid8`.as("caller_xid"),
        ]),
    ),
)

const removeUnused = batchStatement({ owner: text<SpendOwner>() }, (item) =>
  query
    .deleteFrom("spending")
    .using(item)
    .whereRef("spending.owner", "=", "item.owner")
    .where("spending.caller_xid", "is not", null)
    .where(callerHasEnded)
    .where(sql<boolean>`NOT ${hasJob}`),
)

const settleUsed = batchStatement({ owner: text<SpendOwner>() }, (item) =>
  query
    .updateTable("spending")
    .from(item)
    .set({ caller_xid: null })
    .whereRef("spending.owner", "=", "item.owner")
    .where("spending.caller_xid", "is not", null)
    .where(hasJob),
)

/**
 * Writes reservations. The caps were locked. `transaction`: the number of the caller's transaction that will create the jobs; `null` if
 * this one does. Removes earlier reservations of these owners whose transactions were rolled back.
 */
export const reserve = async (
  session: Session,
  reservations: ReadonlyArray<Reservation>,
  transaction: string | null,
): Promise<void> => {
  const owners = [...new Set(reservations.map(({ owner }) => owner))].map((owner) => ({ owner }))
  await Promise.all([
    session.runBatch(removeUnused, owners),
    session.runBatch(settleUsed, owners),
    session.runBatch(insertReservations, reservations, { transaction }),
    session.runBatch(takeTurn, owners),
  ])
}

const reservationsOfEntries = batchStatement({ entry: text() }, (item) =>
  query
    .selectFrom("spending")
    .innerJoin(item, (join) => join.onRef("item.entry", "=", "spending.entry"))
    .select(["spending.owner", "spending.entry", "spending.currency", "spending.amount"])
    .where("spending.charged_at", "is", null)
    .$castTo<Reservation>(),
)

const entriesOf = (jobIds: Iterable<string>) => Array.from(jobIds, (entry) => ({ entry }))

/** Returns what each of these unfinished jobs reserves, by owner. */
export const reservationsOf = (session: Session, jobIds: Iterable<JobId>): Promise<ReadonlyArray<Reservation>> =>
  session.batch(reservationsOfEntries, entriesOf(jobIds))

const deleteEntries = batchStatement({ entry: text() }, (item) =>
  query
    .deleteFrom("spending")
    .using(item)
    .whereRef("spending.entry", "=", "item.entry")
    .where("spending.charged_at", "is", null),
)

/** Removes what these jobs reserve, which are unfinished or were not created. */
export const unreserveJobs = (session: Session, jobIds: Iterable<string>): Promise<number> =>
  session.runBatch(deleteEntries, entriesOf(jobIds))

const capOfOwner = batchStatement({ owner: text<SpendOwner>() }, (item) =>
  query
    .selectFrom("spend_caps")
    .innerJoin(item, (join) => join.onRef("item.owner", "=", "spend_caps.owner"))
    .select("spend_caps.owner"),
)

export const anyCap = async (session: Session, owners: ReadonlyArray<SpendOwner>): Promise<boolean> =>
  (
    await session.batch(
      capOfOwner,
      [...new Set(owners)].map((owner) => ({ owner })),
    )
  ).length > 0

/** Returns what unfinished jobs reserve, by job. A job that had no cap when it was accepted reserves nothing. */
export const readReservations = async (session: Session, jobs: ReadonlyArray<{ readonly jobId: JobId }>) =>
  new Map<string, Reservation>(
    (
      await reservationsOf(
        session,
        jobs.map(({ jobId }) => jobId),
      )
    ).map((reserved) => [reserved.entry, reserved]),
  )

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
