import type { JobId, Spending, SpendOwner } from "@kiln/core/domain"
import { type SpendEntry, spendingOf } from "@kiln/core/rules"
import type { MemoryState } from "./MemoryState.ts"

/** Returns the cap of an owner with what counts against it, without what `except` reserves; `undefined` if it has no cap. */
export const readSpending = (
  state: MemoryState,
  owner: SpendOwner,
  now: number,
  except?: JobId,
): Spending | undefined => {
  const cap = state.spendCaps.get(owner)
  if (cap === undefined) return undefined
  const charged = [...state.charges.values()]
    .filter(({ keyId, projectId }) => keyId === owner || projectId === owner)
    .map(({ charge: { amount, currency }, chargedAt }): SpendEntry => ({ currency, amount, chargedAt }))
  const reserved = [...state.reservations]
    .filter(([jobId, { owners }]) => jobId !== except && owners.includes(owner))
    .map(([, { amount, currency }]): SpendEntry => ({ currency, amount, chargedAt: null }))
  return spendingOf(owner, cap, [...charged, ...reserved], now)
}
