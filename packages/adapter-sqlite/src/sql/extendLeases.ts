import { applyEvent, type JobId, type JobState } from "@kiln/core/domain"
import type { ExtendOutcome, Extension } from "@kiln/core/ports"
import { stateOf } from "../JobRow.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { stateById } from "./writeState.ts"

type Lease = Pick<JobState, "token" | "claimableAt" | "deadlineAt" | "phaseStartedAt" | "ranMs">

/** Heartbeats are the most frequent write, so they write the lease alone. The fence stands in the WHERE. */
const moveLease = statement((given: Given<Lease & { id: JobId }>) =>
  query
    .updateTable("jobs")
    .set({
      claimable_at: given.claimableAt,
      deadline_at: given.deadlineAt,
      phase_started_at: given.phaseStartedAt,
      ran_ms: given.ranMs,
    })
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
    if (job === undefined || extended?.claimableAt == null) return { _tag: "LeaseLost" }
    const { claimableAt, deadlineAt, phaseStartedAt, ranMs } = extended
    if (tx.run(moveLease, { id: jobId, token, claimableAt, deadlineAt, phaseStartedAt, ranMs }) === 0)
      return { _tag: "LeaseLost" }
    // A lease that had ended may have left the lane without anything to come.
    mayBeClaimableAt(tx, job.laneId, claimableAt)
    // Past the run limit nothing can be granted any more.
    return { _tag: "Extended", leaseRemainingMs: Math.max(0, claimableAt - tx.now) }
  })
