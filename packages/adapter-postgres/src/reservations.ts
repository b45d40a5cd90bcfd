import { sql } from "kysely"
import type { JobId, SpendOwner } from "@kiln/core/domain"
import type { Session } from "./Session.ts"
import { batchStatement, type Given, type ItemOf, query, text } from "./Statement.ts"

export type Owner = { owner: SpendOwner }

/**
 * Whether the caller's transaction of a reservation had ended when this statement's snapshot was taken, so that its job, if it committed one,
 * is in the same snapshot. A transaction that would begin later belongs to another server, from which the tables were copied.
 */
export const callerHasEnded = sql<boolean>`(pg_visible_in_snapshot(spending.caller_xid, pg_current_snapshot())
  OR spending.caller_xid >= pg_snapshot_xmax(pg_current_snapshot()))`

/** Whether the job of a reservation exists. */
export const hasJob = sql<boolean>`EXISTS (SELECT FROM "kiln".jobs WHERE jobs.id = spending.entry)`

const reservation = { owner: text<SpendOwner>(), entry: text(), currency: text(), amount: text() }

/** The amount of a new job that counts against the budget of one owner. */
export type Reservation = ItemOf<typeof reservation>

const insertReservations = batchStatement(reservation, (item) =>
  query
    .insertInto("spending")
    .columns(["owner", "entry", "currency", "amount"])
    .expression(query.selectFrom(item).select(["item.owner", "item.entry", "item.currency", "item.amount"])),
)

const takeTurn = batchStatement({ owner: text<SpendOwner>() }, (item) =>
  query
    .updateTable("spend_caps")
    .from(item)
    .set({ turns: sql`turns + 1` })
    .whereRef("spend_caps.owner", "=", "item.owner"),
)

const insertCallersReservations = batchStatement(reservation, (item, given: Given<{ transaction: string }>) =>
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
    transaction === null
      ? session.runBatch(insertReservations, reservations)
      : session.runBatch(insertCallersReservations, reservations, { transaction }),
    session.runBatch(takeTurn, owners),
  ])
}

const deleteReservations = batchStatement({ owner: text<SpendOwner>(), entry: text() }, (item) =>
  query
    .deleteFrom("spending")
    .using(item)
    .whereRef("spending.owner", "=", "item.owner")
    .whereRef("spending.entry", "=", "item.entry"),
)

const reservationsOfEntries = batchStatement({ entry: text() }, (item) =>
  query
    .selectFrom("spending")
    .innerJoin(item, (join) => join.onRef("item.entry", "=", "spending.entry"))
    .select(["spending.owner", "spending.entry", "spending.currency", "spending.amount"])
    .where("spending.charged_at", "is", null)
    .$castTo<Reservation>(),
)

const entriesOf = (jobIds: Iterable<JobId>) => [...jobIds].map((entry) => ({ entry }))

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

/** Removes what these unfinished jobs reserve. */
export const unreserveJobs = (session: Session, jobIds: Iterable<JobId>): Promise<number> =>
  session.runBatch(deleteEntries, entriesOf(jobIds))

/** Removes reservations of jobs that were not created. */
export const unreserve = (session: Session, reservations: ReadonlyArray<Reservation>): Promise<number> =>
  session.runBatch(deleteReservations, reservations)

const capOfOwner = batchStatement({ owner: text<SpendOwner>() }, (item) =>
  query
    .selectFrom("spend_caps")
    .innerJoin(item, (join) => join.onRef("item.owner", "=", "spend_caps.owner"))
    .select("spend_caps.owner"),
)

/** Returns whether one of these owners has a cap. */
export const anyCap = async (session: Session, owners: ReadonlyArray<SpendOwner>): Promise<boolean> =>
  (
    await session.batch(
      capOfOwner,
      [...new Set(owners)].map((owner) => ({ owner })),
    )
  ).length > 0

const reservationsOfJobs = batchStatement({ entry: text() }, (item) =>
  query
    .selectFrom("spending")
    .innerJoin(item, (join) => join.onRef("item.entry", "=", "spending.entry"))
    .select(["spending.entry", "spending.currency", "spending.amount"])
    .where("spending.charged_at", "is", null),
)

/** Returns what unfinished jobs reserve, by job. A job that had no cap when it was accepted reserves nothing. */
export const readReservations = async (session: Session, jobs: ReadonlyArray<{ readonly jobId: string }>) => {
  const rows = await session.batch(
    reservationsOfJobs,
    jobs.map(({ jobId: entry }) => ({ entry })),
  )
  return new Map(rows.map(({ entry, ...reserved }) => [entry, reserved]))
}
