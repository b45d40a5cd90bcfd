import type { JobMode } from "@kiln/core/domain"
import type { Runnable } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** When a lane without anything claimable has something again. A job whose deadline comes first never will be. */
export const nextClaimable = statement((given: Given<{ laneId: number; now: number }>) =>
  query
    .selectFrom("jobs")
    .select("claimable_at as claimableAt")
    .where("lane_id", "=", given.laneId)
    .where("claimable_at", ">", given.now)
    .whereRef("deadline_at", ">", "claimable_at")
    .orderBy("claimable_at")
    .limit(1),
)

const setNextAt = statement((given: Given<{ laneId: number; nextAt: number | null }>) =>
  query.updateTable("lanes").set({ next_at: given.nextAt }).where("id", "=", given.laneId),
)

export const earliestLane = statement((given: Given<{ kind: string; mode: JobMode }>) =>
  query
    .selectFrom("lanes")
    .select(["id", "next_at as nextAt"])
    .where("kind", "=", given.kind)
    .where("mode", "=", given.mode)
    .where("next_at", "is not", null)
    .orderBy("next_at")
    .limit(1)
    .$narrowType<{ nextAt: number }>(),
)

/** Sets a lane without anything claimable to the time when it has something again, and so out of the way until then. */
export const settleLane = (tx: Transaction, laneId: number): number | null => {
  const nextAt = tx.get(nextClaimable, { laneId, now: tx.now })?.claimableAt ?? null
  tx.run(setNextAt, { laneId, nextAt })
  return nextAt
}

/** How many lanes one claim corrects at most, so that a claim stays short after a burst in many lanes. */
const maxCorrections = 16

/**
 * Milliseconds until one of these lanes may have something, after all that had something now were
 * settled. The earliest is looked at before it is believed: its job may have ended meanwhile, or
 * its lease may have been extended.
 */
export const nextInMs = (tx: Transaction, runnable: ReadonlyArray<Runnable>): number | undefined => {
  for (let corrections = 0; ; corrections += 1) {
    const [first, ...others] = runnable.flatMap(({ kind, mode }) => tx.get(earliestLane, { kind, mode }) ?? [])
    if (first === undefined) return undefined
    const earliest = others.reduce((a, b) => (b.nextAt < a.nextAt ? b : a), first)
    if (corrections === maxCorrections || settleLane(tx, earliest.id) === earliest.nextAt)
      return earliest.nextAt - tx.now
  }
}
