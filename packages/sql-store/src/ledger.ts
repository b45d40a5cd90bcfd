import { sql } from "kysely"
import type { JobId } from "@kiln/core/domain"
import type { LedgerEntry, LedgerPage, LedgerPart } from "@kiln/core/ports"
import { decodeLineItems } from "./storedJson.ts"
import { select } from "./columns.ts"
import type { Program, Sql } from "./Sql.ts"
import { type Given, plenty, query, type RowOf, statement } from "./Statement.ts"

type Page = { readonly time: number; readonly jobId: JobId | ""; readonly to: number; readonly limit: number }

/** Entries after a position of the index, in its order. */
export const chargesAfter = statement((given: Given<Page>) =>
  query
    .selectFrom("charges")
    .innerJoin(plenty, (join) => join.onTrue())
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

/** The empty id sorts before every id of the same time. */
const positionBefore = ({ after, from }: LedgerPage) =>
  after === null || after.chargedAt < from
    ? { time: from, jobId: "" as const }
    : { time: after.chargedAt, jobId: after.jobId }

/** Reads a page of a ledger that is closed until this time. */
export function* readCharges(tx: Sql, page: LedgerPage, until: number): Program<LedgerPart> {
  const rows = yield* tx.all(chargesAfter, { ...positionBefore(page), to: until, limit: page.limit })
  return { entries: rows.map(entryOf), until }
}
