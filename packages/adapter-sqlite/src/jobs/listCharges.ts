import { sql } from "kysely"
import type { LedgerPage, LedgerPart } from "@kiln/core/ports"
import { readCharges } from "@kiln/sql-store"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { runIn } from "../transactionsOf.ts"

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
