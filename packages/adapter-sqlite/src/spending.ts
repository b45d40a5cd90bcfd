import { sql } from "kysely"
import type { JobId, SpendCap, Spending, SpendOwner } from "@kiln/core/domain"
import { dailySums, reservedSums, spendingOf, startOfPeriod, withoutReservation } from "@kiln/core/rules"
import type { LedgerPage, LedgerPart } from "@kiln/core/ports"
import { listCaps, readCharges, writeCap } from "@kiln/sql-store"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"
import { assign, select, type Values } from "./columns.ts"
import { runIn } from "./transactionsOf.ts"

type Owner = Values<"spend_caps", "owner">

/** Number of charged entries from which an owner's are added up by day, so that reading them stays cheap. More than two months have days. */
const mostCharged = 200
/** Number of different amounts from which those that an owner's unfinished jobs reserve are added up. */
const mostAmounts = 50

const capOf = statement((given: Given<Owner>) =>
  query
    .selectFrom("spend_caps")
    .select(select("spend_caps", "owner", "currency", "day", "month"))
    .where("owner", "=", given.owner),
)

/** A comparison, and not `IS NOT NULL`, has SQLite take the index of charged entries instead of reading all of the owner's. */
const chargedOf = statement((given: Given<Owner>) =>
  query
    .selectFrom("spending")
    .select(select("spending", "currency", "amount", "charged_at"))
    .where("owner", "=", given.owner)
    .where("charged_at", ">=", 0),
)

/** What the unfinished jobs of an owner reserve. */
const reservedOf = statement((given: Given<Owner>) =>
  query
    .selectFrom("reserved")
    .select(select("reserved", "currency", "amount", "count"))
    .where("owner", "=", given.owner),
)

const deleteReservation = statement((given: Given<Values<"spending", "entry">>) =>
  query.deleteFrom("spending").where("entry", "=", given.entry).where("charged_at", "is", null),
)

/** Removes what an unfinished job reserves. */
export const unreserve = (tx: Transaction, jobId: JobId): void => void tx.run(deleteReservation, { entry: jobId })

const spendingUnder = (tx: Transaction, { owner, ...cap }: RowOf<typeof capOf>): Spending =>
  spendingOf(owner, cap, [...tx.all(chargedOf, { owner }), ...reservedSums(tx.all(reservedOf, { owner }))], tx.now)

/** What counts against a cap, without what this job reserves. */
const spendingWithout = (tx: Transaction, cap: RowOf<typeof capOf>, except: JobId): Spending => {
  const spending = spendingUnder(tx, cap)
  const own = tx.get(reservationUnder, { owner: cap.owner, entry: except })
  return own?.currency === cap.currency ? withoutReservation(spending, own.amount) : spending
}

/**
 * Returns the caps of these owners that have one, with what counts against them, without what `except` reserves. The write lock keeps
 * others from reserving.
 */
export const readSpending = (
  tx: Transaction,
  owners: ReadonlyArray<SpendOwner>,
  except?: JobId,
): ReadonlyArray<Spending> =>
  owners.flatMap((owner) => {
    const cap = tx.get(capOf, { owner })
    if (cap === undefined) return []
    return [except === undefined ? spendingUnder(tx, cap) : spendingWithout(tx, cap, except)]
  })

export const listSpending = (tx: Transaction): ReadonlyArray<Spending> =>
  runIn(tx, listCaps).map((cap) => spendingUnder(tx, cap))

const insertEntry = statement(
  (given: Given<Values<"spending", "owner" | "entry" | "currency" | "amount" | "charged_at">>) =>
    query.insertInto("spending").values(assign(given, "owner", "entry", "currency", "amount", "charged_at")),
)

/** Reserves what a new job may cost at most, for those of these owners that have a cap. */
export const reserve = (
  tx: Transaction,
  owners: ReadonlyArray<SpendOwner>,
  reservation: { readonly jobId: string; readonly currency: string; readonly amount: string },
): void => {
  const { amount, currency, jobId: entry } = reservation
  for (const owner of owners) {
    if (tx.get(capOf, { owner }) === undefined) continue
    tx.run(insertEntry, { owner, entry, currency, amount, chargedAt: null })
    if ((tx.get(chargedEntries, { owner })?.count ?? 0) >= mostCharged)
      replaceCharged(tx, owner, tx.all(chargedOf, { owner }))
    if ((tx.get(amounts, { owner })?.count ?? 0) >= mostAmounts) addUpReserved(tx, owner)
  }
}

const amounts = statement((given: Given<Owner>) =>
  query
    .selectFrom("reserved")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("owner", "=", given.owner),
)

const deleteReserved = statement((given: Given<Owner>) => query.deleteFrom("reserved").where("owner", "=", given.owner))

const insertSum = statement((given: Given<Values<"reserved", "owner" | "currency" | "amount">>) =>
  query.insertInto("reserved").values({ ...assign(given, "owner", "currency", "amount"), count: 1 }),
)

const addUpReserved = (tx: Transaction, owner: SpendOwner): void => {
  const sums = reservedSums(tx.all(reservedOf, { owner }))
  tx.run(deleteReserved, { owner })
  for (const { amount, currency } of sums) tx.run(insertSum, { owner, currency, amount })
}

/** What one unfinished job reserves under the cap of one owner. */
const reservationUnder = statement((given: Given<Values<"spending", "owner" | "entry">>) =>
  query
    .selectFrom("spending")
    .select(select("spending", "currency", "amount"))
    .where("owner", "=", given.owner)
    .where("entry", "=", given.entry)
    .where("charged_at", "is", null),
)

const reservationOfEntry = statement((given: Given<Values<"spending", "entry">>) =>
  query
    .selectFrom("spending")
    .select(select("spending", "currency", "amount"))
    .where("entry", "=", given.entry)
    .where("charged_at", "is", null)
    .limit(1),
)

/** Returns what an unfinished job reserves; `undefined` if it had no cap when it was accepted. */
export const reservationOf = (tx: Transaction, jobId: string) => tx.get(reservationOfEntry, { entry: jobId })

const chargedEntries = statement((given: Given<Owner>) =>
  query
    .selectFrom("spending")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("owner", "=", given.owner)
    .where("charged_at", ">=", 0),
)

const deleteCharged = statement((given: Given<Owner>) =>
  query.deleteFrom("spending").where("owner", "=", given.owner).where("charged_at", ">=", 0),
)

/** Replaces the entries of finished jobs by one a day. */
const replaceCharged = (
  tx: Transaction,
  owner: SpendOwner,
  entries: ReadonlyArray<Values<"charges", "currency" | "amount"> & { readonly chargedAt: number | null }>,
): void => {
  tx.run(deleteCharged, { owner })
  for (const { amount, chargedAt, currency } of dailySums(entries, tx.now))
    tx.run(insertEntry, { owner, entry: `day ${chargedAt} ${currency}`, currency, amount, chargedAt })
}

/** The charges of a project or a key. */
const chargesSince = statement((given: Given<Owner & { readonly since: number }>) =>
  query
    .selectFrom("charges")
    .select(select("charges", "currency", "amount", "charged_at"))
    .where("charged_at", ">=", given.since)
    .where((where) =>
      where.or([where("project_id", "=", given.owner as never), where("key_id", "=", given.owner as never)]),
    ),
)

/** The ledger says what was charged before there was a cap. Reservations stay until their jobs end. */
export const setSpendCap = (tx: Transaction, owner: SpendOwner, cap: SpendCap | null): void => {
  runIn(tx, (common) => writeCap(common, owner, cap))
  if (cap === null) tx.run(deleteCharged, { owner })
  else replaceCharged(tx, owner, tx.all(chargesSince, { owner, since: startOfPeriod("month", tx.now) }))
}

const closedLedger = statement(() =>
  query.selectFrom("closed_ledger").select((from) => [
    "closed_until as closedUntil",
    from
      .selectFrom("charges")
      .select(sql<number>`coalesce(max(charged_at), 0)`.as("last"))
      .as("last"),
  ]),
)

const closeLedger = statement((given: Given<{ readonly until: number }>) =>
  query.updateTable("closed_ledger").set({ closed_until: given.until }),
)

/**
 * Closes the ledger after now and after its last entry, while holding the write lock: a later charge, by any process, reads
 * this and gets a later time. Pages of a period that is already closed write nothing.
 */
export const listCharges = (tx: Transaction, page: LedgerPage): LedgerPart => {
  const { closedUntil, last } = tx.get(closedLedger, {}) ?? { closedUntil: 0, last: 0 }
  const until = Math.min(page.to, Math.max(closedUntil, tx.now + 1, (last ?? 0) + 1))
  if (until > closedUntil) tx.run(closeLedger, { until })
  return runIn(tx, (from) => readCharges(from, page, until))
}
