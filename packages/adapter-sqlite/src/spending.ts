import {
  dailySums,
  type JobId,
  type SpendCap,
  type Spending,
  spendingOf,
  type SpendOwner,
  startOfPeriod,
} from "@kiln/core/domain"
import { assign, select, type Values } from "./columns.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

type Owner = Values<"spend_caps", "owner">

/** Number of charged entries from which an owner's are added up by day, so that reading them stays cheap. More than two months have days. */
const mostCharged = 200

const selectCaps = query.selectFrom("spend_caps").select(select("spend_caps", "owner", "currency", "day", "month"))

const capOf = statement((given: Given<Owner>) => selectCaps.where("owner", "=", given.owner))

const allCaps = statement(() => selectCaps.orderBy("owner"))

const entriesOf = statement((given: Given<Owner>) =>
  query
    .selectFrom("spending")
    .select(select("spending", "entry", "currency", "amount", "charged_at"))
    .where("owner", "=", given.owner),
)

const deleteReservation = statement((given: Given<Values<"spending", "entry">>) =>
  query.deleteFrom("spending").where("entry", "=", given.entry).where("charged_at", "is", null),
)

/** Removes what an unfinished job reserves. */
export const unreserve = (tx: Transaction, jobId: JobId): void => void tx.run(deleteReservation, { entry: jobId })

/** An entry of a charge has no job's id as long as the job is unfinished. */
const spendingUnder = (tx: Transaction, { owner, ...cap }: RowOf<typeof capOf>, except?: JobId): Spending => {
  const entries = tx.all(entriesOf, { owner })
  return spendingOf(
    owner,
    cap,
    except === undefined ? entries : entries.filter(({ entry }) => entry !== except),
    tx.now,
  )
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
    return cap === undefined ? [] : [spendingUnder(tx, cap, except)]
  })

export const listSpending = (tx: Transaction): ReadonlyArray<Spending> =>
  tx.all(allCaps, {}).map((cap) => spendingUnder(tx, cap))

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
      replaceCharged(tx, owner, tx.all(entriesOf, { owner }))
  }
}

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
    .where("charged_at", "is not", null),
)

const deleteCharged = statement((given: Given<Owner>) =>
  query.deleteFrom("spending").where("owner", "=", given.owner).where("charged_at", "is not", null),
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

const upsertCap = statement((given: Given<Values<"spend_caps", "owner" | "currency" | "day" | "month">>) =>
  query
    .insertInto("spend_caps")
    .values(assign(given, "owner", "currency", "day", "month"))
    .onConflict((conflict) => conflict.column("owner").doUpdateSet(assign(given, "currency", "day", "month"))),
)

const deleteCap = statement((given: Given<Owner>) => query.deleteFrom("spend_caps").where("owner", "=", given.owner))

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
  if (cap === null) {
    tx.run(deleteCap, { owner })
    tx.run(deleteCharged, { owner })
    return
  }
  const { currency, day, month } = cap
  tx.run(upsertCap, { owner, currency, day, month })
  replaceCharged(tx, owner, tx.all(chargesSince, { owner, since: startOfPeriod("month", tx.now) }))
}
