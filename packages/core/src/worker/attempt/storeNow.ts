import type { Attempt } from "./Attempt.ts"
import type { LeaseWatch } from "./LeaseWatch.ts"

/**
 * Returns the store time, in Unix milliseconds: that of the claim, and the time that has passed here since then. It does not depend on
 * the clock of this machine.
 */
export const storeNow = (
  { claim, claimedAtMs }: Pick<Attempt, "claim" | "claimedAtMs">,
  watch: Pick<LeaseWatch, "now">,
): number => (claim.job.phaseStartedAt ?? 0) + Math.max(0, Math.floor(watch.now() - claimedAtMs))
