import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import { decodeLineItems, type LedgerEntry, type LedgerPage, type LedgerPart } from "@kiln/core/ports"
import { select } from "../columns.ts"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

type Page = { readonly time: number; readonly jobId: JobId | ""; readonly to: number; readonly limit: number }

/** Entries after a position of the index, in its order. */
export const chargesAfter = statement((given: Given<Page>) =>
  query
    .selectFrom("charges")
    .select(
      select("charges", "job_id", "project_id", "key_id", "kind", "currency", "amount", "line_items", "charged_at"),
    )
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

/** The empty id sorts before every id. */
const positionBefore = ({ after, from }: LedgerPage) =>
  after === null || after.chargedAt < from
    ? { time: from, jobId: "" as const }
    : { time: after.chargedAt, jobId: after.jobId }

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
  const position = positionBefore(page)
  return { entries: tx.all(chargesAfter, { ...position, to: until, limit: page.limit }).map(entryOf), until }
}
