import type { LedgerEntry, LedgerPage } from "@kiln/core/ports"
import type { MemoryState } from "../MemoryState.ts"

type Place = Pick<LedgerEntry, "chargedAt" | "jobId">

/** Where an entry stands in the ledger: by its time, those of one instant by their job's id. */
const compare = (a: Place, b: Place): number =>
  a.chargedAt - b.chargedAt || (a.jobId < b.jobId ? -1 : a.jobId > b.jobId ? 1 : 0)

export const listCharges = (state: MemoryState, { after, from, limit, to }: LedgerPage): ReadonlyArray<LedgerEntry> =>
  [...state.charges.values()]
    .filter((entry) => entry.chargedAt >= from && entry.chargedAt < to && (after === null || compare(entry, after) > 0))
    .sort(compare)
    .slice(0, limit)
