import { applyEvent, type JobId, type JobState } from "@kiln/core/domain"
import type { ClaimRef, ExtendOutcome, Extension } from "@kiln/core/ports"
import { stateOf, type StateRow } from "./jobRow.ts"
import type { Session, Transaction } from "../connection/Session.ts"
import { assign, batchStatement, fieldsOf, flag, integer, query, text } from "../Statement.ts"
import { mayBeClaimableAt } from "./lanes.ts"

/**
 * Heartbeats are frequent, so they write only the lease. The fence is in the WHERE clause. `held` is a column of the item,
 * because as a constant it would make the planner scan all held jobs.
 */
const moveLeases = batchStatement(
  {
    id: text<JobId>(),
    held: flag(),
    token: integer(),
    claimableAt: integer(),
    deadlineAt: integer(),
    phaseStartedAt: integer(),
    ranMs: integer(),
  },
  (item) =>
    query
      .updateTable("queue")
      .from(item)
      .set(assign(fieldsOf(item), "claimable_at", "deadline_at", "phase_started_at", "ran_ms"))
      .whereRef("queue.id", "=", "item.id")
      .where("queue.status", "=", "processing")
      .whereRef("queue.held", "=", "item.held")
      .whereRef("queue.token", "=", "item.token"),
)

export const extendLeases = async (
  tx: Transaction,
  items: ReadonlyArray<Extension>,
  locked: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<ExtendOutcome>> => {
  const jobs = new Map(locked.map((job) => [job.id, job]))
  const leases = new Map<JobId, { readonly token: number; readonly laneId: number; readonly state: JobState }>()
  const outcomes = items.map(({ jobId, leaseDurationMs, token }): ExtendOutcome => {
    const job = jobs.get(jobId)
    const present = leases.get(jobId)?.state ?? (job && stateOf(job))
    const extended =
      present && applyEvent(present, { event: "extended", token, leaseDurationMs: Math.ceil(leaseDurationMs) }, tx.now)
    if (job === undefined || extended?.claimableAt == null) return { _tag: "LeaseLost" }
    leases.set(jobId, { token, laneId: job.laneId, state: extended })
    // Past the run limit, no more time is granted.
    return { _tag: "Extended", leaseRemainingMs: Math.max(0, extended.claimableAt - tx.now) }
  })
  const written = await tx.runBatch(
    moveLeases,
    [...leases].map(([id, { state, token }]) => ({
      id,
      held: true,
      token,
      claimableAt: state.claimableAt ?? tx.now,
      deadlineAt: state.deadlineAt ?? tx.now,
      phaseStartedAt: state.phaseStartedAt ?? tx.now,
      ranMs: state.ranMs,
    })),
  )
  if (written !== leases.size) throw new TypeError("a lease that was locked did not move")
  // If the lease had ended, the lane's `next_at` may have been raised or cleared.
  await mayBeClaimableAt(
    tx,
    [...leases.values()].map(({ laneId, state }) => ({ laneId, claimableAt: state.claimableAt })),
  )
  return outcomes
}

const presentClaims = batchStatement({ id: text<JobId>(), held: flag(), token: integer() }, (item) =>
  query
    .selectFrom(item)
    .innerJoin("queue", (join) =>
      join
        .onRef("queue.id", "=", "item.id")
        .onRef("queue.held", "=", "item.held")
        .onRef("queue.token", "=", "item.token"),
    )
    .select("item.ord"),
)

/** Checks the fence without locking. `held` is a column of the item, see `extendLeases`. */
export const checkClaims = async (
  session: Session,
  items: ReadonlyArray<ClaimRef>,
): Promise<ReadonlyArray<boolean>> => {
  const claims = items.map(({ jobId: id, token }) => ({ id, held: true, token }))
  const present = new Set((await session.batch(presentClaims, claims)).map(({ ord }) => ord))
  return items.map((_, index) => present.has(index + 1))
}
