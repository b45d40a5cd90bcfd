import { isParked, rankOf, rescheduling } from "@kiln/core/domain"
import type { RescheduleOutcome, Rescheduling } from "@kiln/core/ports"
import { decodePriority } from "@kiln/sql-store"
import { assign, type Values } from "../columns.ts"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { stateById, stateOf } from "./JobRow.ts"
import { addRank, mayBeClaimableAt } from "./lanes.ts"
import { parkedBySeq } from "./signals.ts"
import { writeState } from "./writeState.ts"

const priorityBySeq = statement((given: Given<Values<"jobs", "seq">>) =>
  query.selectFrom("jobs").select("priority").where("seq", "=", given.seq),
)

/** The schema allows it only while the job waits. */
const updatePriority = statement((given: Given<Values<"jobs", "seq" | "priority">>) =>
  query.updateTable("jobs").set(assign(given, "priority")).where("seq", "=", given.seq),
)

/** Changes when waiting jobs may be claimed, and their priority. */
export const rescheduleJobs = (tx: Transaction, items: ReadonlyArray<Rescheduling>): ReadonlyArray<RescheduleOutcome> =>
  items.map((item) => {
    const id = item.jobId
    const job = tx.get(stateById, { id })
    if (job === undefined) return "NotFound"
    const { laneId, seq } = job
    const state = stateOf(job)
    const priority = decodePriority(tx.get(priorityBySeq, { seq })?.priority ?? NaN, id)
    const parked = isParked(tx.get(parkedBySeq, { jobSeq: seq }), state)
    const decided = rescheduling({ ...state, priority }, parked, item, tx.now)
    if (typeof decided === "string") return decided
    if (decided.priority !== priority) {
      tx.run(updatePriority, { seq, priority: rankOf(decided.priority) })
      addRank(tx, laneId, rankOf(decided.priority))
    }
    const { state: moved } = decided
    if (moved === undefined) return "Rescheduled"
    if (!writeState(tx, job, moved)) throw new TypeError(`${id} cannot be rescheduled`)
    if (moved.claimableAt !== null) mayBeClaimableAt(tx, laneId, moved.claimableAt)
    return "Rescheduled"
  })
