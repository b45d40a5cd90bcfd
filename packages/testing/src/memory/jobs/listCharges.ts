import type { LedgerEntry, LedgerPage, LedgerPart } from "@kiln/core/ports"
import type { MemoryState } from "../MemoryState.ts"

type Place = Pick<LedgerEntry, "chargedAt" | "jobId">

/** Orders entries by time, then by job id. */
const compare = (a: Place, b: Place): number =>
  a.chargedAt - b.chargedAt || (a.jobId < b.jobId ? -1 : a.jobId > b.jobId ? 1 : 0)

/**
 * Lists charges, and closes the ledger after now and after its last entry: a later charge, even in this millisecond, gets a later
 * time.
 */
export const listCharges = (state: MemoryState, { after, from, limit, to }: LedgerPage, now: number): LedgerPart => {
  const last = [...state.charges.values()].reduce((time, { chargedAt }) => Math.max(time, chargedAt), now)
  const until = Math.min(to, Math.max(state.ledgerClosedUntil, last + 1))
  state.ledgerClosedUntil = Math.max(state.ledgerClosedUntil, until)
  const entries = [...state.charges.values()]
    .filter(
      (entry) => entry.chargedAt >= from && entry.chargedAt < until && (after === null || compare(entry, after) > 0),
    )
    .sort(compare)
    .slice(0, limit)
  return { entries, until }
}
