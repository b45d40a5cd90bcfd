import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import type { LedgerEntry, LedgerPage, LedgerPart } from "@kiln/core/ports"
import { decodeLineItems } from "@kiln/core/ports"
import { type Given, query, type RowOf, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Entries behind a place of the index, in its order. */
export const chargesAfter = statement((given: Given<{ time: number; jobId: JobId | ""; to: number; limit: number }>) =>
  query
    .selectFrom("charges")
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

/** No id is empty, so the empty one stands before everything of its instant. */
const placeBefore = ({ after, from }: LedgerPage) =>
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

const closeLedger = statement((given: Given<{ until: number }>) =>
  query.updateTable("closed_ledger").set({ closed_until: given.until }),
)

/**
 * Closes the ledger behind now and behind its last entry, with the write lock held: whatever is charged later, by any process, reads this
 * and gets a later time. Pages of a time that is closed already write nothing.
 */
export const listCharges = (tx: Transaction, page: LedgerPage): LedgerPart => {
  const { closedUntil, last } = tx.get(closedLedger, {}) ?? { closedUntil: 0, last: 0 }
  const until = Math.min(page.to, Math.max(closedUntil, tx.now + 1, (last ?? 0) + 1))
  if (until > closedUntil) tx.run(closeLedger, { until })
  return { entries: tx.all(chargesAfter, { ...placeBefore(page), to: until, limit: page.limit }).map(entryOf), until }
}
