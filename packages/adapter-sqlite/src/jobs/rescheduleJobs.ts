import { isParked, rescheduling } from "@kiln/core/domain"
import type { RescheduleOutcome, Rescheduling } from "@kiln/core/ports"
import type { Transaction } from "../Transaction.ts"
import { stateById, stateOf } from "./JobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { parkedBySeq } from "./signals.ts"
import { writeState } from "./writeState.ts"

/** Changes when waiting jobs may be claimed. */
export const rescheduleJobs = (tx: Transaction, items: ReadonlyArray<Rescheduling>): ReadonlyArray<RescheduleOutcome> =>
  items.map((item) => {
    const id = item.jobId
    const job = tx.get(stateById, { id })
    if (job === undefined) return "NotFound"
    const state = stateOf(job)
    const decided = rescheduling(state, isParked(tx.get(parkedBySeq, { jobSeq: job.seq }), state), item, tx.now)
    if (typeof decided === "string") return decided
    if (!writeState(tx, job, decided)) throw new TypeError(`${id} cannot be rescheduled`)
    if (decided.claimableAt !== null) mayBeClaimableAt(tx, job.laneId, decided.claimableAt)
    return "Rescheduled"
  })
