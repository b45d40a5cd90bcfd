import { applyEvent, type JobId } from "@kiln/core/domain"
import type { ExtendOutcome, Extension } from "@kiln/core/ports"
import { stateOf } from "../JobRow.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { stateById } from "./writeState.ts"

/** Heartbeats are the most frequent write, so they write the two times alone. The fence stands in the WHERE. */
const moveLease = statement((given: Given<{ id: JobId; token: number; claimableAt: number; deadlineAt: number }>) =>
  query
    .updateTable("jobs")
    .set({ claimable_at: given.claimableAt, deadline_at: given.deadlineAt })
    .where("id", "=", given.id)
    .where("status", "=", "processing")
    .where("held", "=", 1)
    .where("token", "=", given.token),
)

export const extendLeases = (tx: Transaction, items: ReadonlyArray<Extension>): ReadonlyArray<ExtendOutcome> =>
  items.map(({ jobId, leaseDurationMs, token }) => {
    const job = tx.get(stateById, { id: jobId })
    const extended =
      job && applyEvent(stateOf(job), { event: "extended", token, leaseDurationMs: Math.ceil(leaseDurationMs) }, tx.now)
    if (job === undefined || extended?.claimableAt == null || extended.deadlineAt === null) return { _tag: "LeaseLost" }
    const { claimableAt, deadlineAt } = extended
    if (tx.run(moveLease, { id: jobId, token, claimableAt, deadlineAt }) === 0) return { _tag: "LeaseLost" }
    // A lease that had ended may have left the lane without anything to come.
    mayBeClaimableAt(tx, job.laneId, claimableAt)
    // Past the run limit nothing can be granted any more.
    return { _tag: "Extended", leaseRemainingMs: Math.max(0, claimableAt - tx.now) }
  })
