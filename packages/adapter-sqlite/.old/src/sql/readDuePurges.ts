import type { DuePurges } from "@kiln/core/ports"
import { query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const purgesDue = statement(() =>
  query
    .selectFrom("purges")
    .select((select) => [
      select.fn.countAll<number>().as("count"),
      select.fn.min<number | null>("recorded_at").as("oldestAt"),
    ]),
)

export const readDuePurges = (tx: Transaction): DuePurges => {
  const row = tx.get(purgesDue, {})
  return { count: row?.count ?? 0, oldestAgeMs: Math.max(0, tx.now - (row?.oldestAt ?? tx.now)) }
}
