import { applyEvent, type ClaimEnd, isFinished, isRepeatedEnd, type JobId } from "@kiln/core/domain"
import type { ClaimRef, FencedOutcome } from "@kiln/core/ports"
import { stateOf, type StateRow } from "../JobRow.ts"
import type { Transaction } from "../Session.ts"
import { type Ending, finishedStates, finishJobs, type Move, moveJobs, withoutResult } from "./writeStates.ts"

/** What is left behind by an end, beside the move itself. */
type Result = Omit<Ending, keyof Move>

/** The end of one claim of a batch. */
export interface ClaimEnding extends ClaimRef {
  readonly endOf: (job: Pick<StateRow, "createdAt">) => ClaimEnd
  readonly resultOf?: ((job: StateRow) => Result) | undefined
}

/** A finished job was not given back, so when it was created plays no part in what its end was. */
const goneFromQueue = { createdAt: 0 }

/**
 * Ends claims: the jobs are finished or wait for their next attempt. A repeat finds that done, and writes nothing; in one
 * batch too, where items count for those after them. `jobs` were locked by this transaction.
 */
export const endClaims = async (
  tx: Transaction,
  jobs: ReadonlyArray<StateRow>,
  items: ReadonlyArray<ClaimEnding>,
): Promise<{ readonly outcomes: ReadonlyArray<FencedOutcome>; readonly moves: ReadonlyArray<Move> }> => {
  const queued = new Map(jobs.map((job) => [job.id, job]))
  const elsewhere = items.filter(({ jobId }) => !queued.has(jobId)).map(({ jobId: id }) => ({ id }))
  const finished = new Map((await tx.batch(finishedStates, elsewhere, {})).map((job) => [job.id, job]))
  const moves = new Map<JobId, Ending>()
  const outcomes = items.map((item): FencedOutcome => {
    const job = queued.get(item.jobId)
    const present = moves.get(item.jobId)?.to ?? (job && stateOf(job))
    if (job === undefined || present === undefined) {
      const ended = finished.get(item.jobId)
      return ended !== undefined && isRepeatedEnd({ ...ended, held: false }, item.endOf(goneFromQueue))
        ? "Written"
        : "LeaseLost"
    }
    const end = item.endOf(job)
    const to = applyEvent(present, end, tx.now)
    if (to === undefined) return isRepeatedEnd(present, end) ? "Written" : "LeaseLost"
    const move = { from: job, to }
    moves.set(job.id, { ...move, ...(item.resultOf?.(job) ?? withoutResult(move)) })
    return "Written"
  })
  const all = [...moves.values()]
  await Promise.all([
    moveJobs(
      tx,
      all.filter(({ to }) => !isFinished(to)),
    ),
    finishJobs(
      tx,
      all.filter(({ to }) => isFinished(to)),
    ),
  ])
  return { outcomes, moves: all }
}
