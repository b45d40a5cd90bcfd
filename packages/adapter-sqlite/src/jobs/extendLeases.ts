import { applyEvent } from "@kiln/core/domain"
import type { ExtendOutcome, Extension } from "@kiln/core/ports"
import { assign, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { stateById, stateOf } from "./JobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"

type Lease = Values<"jobs", "id" | "token" | "claimable_at" | "deadline_at" | "phase_started_at" | "ran_ms">

/** Heartbeats are the most frequent writes, so they write only the lease. The fence is in the WHERE. */
const moveLease = statement((given: Given<Lease>) =>
  query
    .updateTable("jobs")
    .set(assign(given, "claimable_at", "deadline_at", "phase_started_at", "ran_ms"))
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
    // If the lease had ended, a claim may have recorded that the lane has nothing to come.
    mayBeClaimableAt(tx, job.laneId, claimableAt)
    // After the run limit no lease is granted.
    return { _tag: "Extended", leaseRemainingMs: Math.max(0, claimableAt - tx.now) }
  })
