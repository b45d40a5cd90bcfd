import { applyEvent, type JobId } from "@kiln/core/domain"
import type { CancelOutcome } from "@kiln/core/ports"
import { stateOf, type StateRow } from "./jobRow.ts"
import type { Transaction } from "../connection/Session.ts"
import { finishedElsewhere } from "./lockJobs.ts"
import { type Ending, finishJobs, withoutResult } from "./writeStates.ts"

/** Cancels jobs. Their tokens grow, so a worker that holds one loses its claim. `jobs` were locked by this transaction. */
export const cancelJobs = async (
  tx: Transaction,
  jobIds: ReadonlyArray<JobId>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<CancelOutcome>> => {
  const endings = new Map<JobId, Ending>()
  for (const from of jobs) {
    const to = applyEvent(stateOf(from), { event: "canceled" }, tx.now)
    if (to === undefined) throw new TypeError(`${from.id} cannot be canceled`)
    endings.set(from.id, withoutResult({ from, to }))
  }
  const finished = new Set(
    await finishedElsewhere(
      tx,
      jobIds.filter((id) => !endings.has(id)),
    ),
  )
  tx.commitWith(finishJobs(tx, [...endings.values()]))
  return jobIds.map((id): CancelOutcome => {
    if (endings.has(id) && !finished.has(id)) {
      // The same job again in the batch is already canceled.
      finished.add(id)
      return "Canceled"
    }
    return finished.has(id) ? "AlreadyFinished" : "NotFound"
  })
}
