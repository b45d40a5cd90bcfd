import type { RetainedData } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** The first kind after another that has finished jobs which retain this. */
export const nextFinishedKind = statement((given: Given<{ readonly retained: RetainedData; readonly after: string }>) =>
  query
    .selectFrom("jobs")
    .select("kind")
    .where("retained", "=", given.retained)
    .where("kind", ">", given.after)
    .where("finished_at", "is not", null)
    .orderBy("kind")
    .limit(1),
)

/** Lists the kinds of finished jobs that retain this, with one search of the index for each kind, however many jobs there are. */
export const finishedKinds = (tx: Transaction, retained: RetainedData): ReadonlyArray<string> => {
  const kinds: Array<string> = []
  // No kind has an empty name.
  for (let after = ""; ;) {
    const next = tx.get(nextFinishedKind, { retained, after })
    if (next === undefined) return kinds
    kinds.push(next.kind)
    after = next.kind
  }
}
