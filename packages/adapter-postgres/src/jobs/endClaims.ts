import { applyEvent, type ClaimEnd, isFinished, isRepeatedEnd, type JobId } from "@kiln/core/domain"
import type { ClaimRef, Deferral, Failure, FencedOutcome } from "@kiln/core/ports"
import { stateOf, type StateRow } from "./jobRow.ts"
import type { Transaction } from "../Session.ts"
import { finishedStates } from "./lockJobs.ts"
import { type Ending, finishJobs, type Move, moveJobs, withoutResult } from "./writeStates.ts"
import { mayBeClaimableAt } from "./lanes.ts"

/** The result of an end, besides the move. */
type Result = Omit<Ending, keyof Move>

/** The end of one claim of a batch. */
export interface ClaimEnding extends ClaimRef {
  readonly endOf: (job: Pick<StateRow, "createdAt">) => ClaimEnd
  readonly resultOf?: ((job: StateRow) => Result) | undefined
}

/** The creation time matters only for released jobs, which are not finished. */
const goneFromQueue = { createdAt: 0 }

/**
 * Ends claims: the jobs are finished or wait for their next attempt. A repeat, also within the batch, is recognized and writes
 * nothing. `jobs` were locked by this transaction.
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
  tx.commitWith(
    moveJobs(
      tx,
      all.filter(({ to }) => !isFinished(to)),
    ),
    finishJobs(
      tx,
      all.filter(({ to }) => isFinished(to)),
    ),
  )
  return { outcomes, moves: all }
}

/** Fails jobs permanently, with an error code. */
export const failJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Failure>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const { outcomes } = await endClaims(
    tx,
    jobs,
    items.map(({ errorCode, jobId, token }) => ({
      jobId,
      token,
      endOf: () => ({ event: "failed", token, errorCode }),
    })),
  )
  return outcomes
}

/** Ends claims of jobs that stay in the queue, and lowers `next_at` of their lanes. The jobs and lanes were locked. */
const returnToQueue = async (
  tx: Transaction,
  items: ReadonlyArray<ClaimEnding>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const { moves, outcomes } = await endClaims(tx, jobs, items)
  await mayBeClaimableAt(
    tx,
    moves.map(({ from, to }) => ({ laneId: from.laneId, claimableAt: to.claimableAt })),
  )
  return outcomes
}

/** Returns jobs for a later attempt. A provider's Retry-After may contain fractions of a millisecond; store time does not. */
export const deferJobs = (
  tx: Transaction,
  items: ReadonlyArray<Deferral>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> =>
  returnToQueue(
    tx,
    items.map(({ countsAsFailure, delayMs, jobId, token }) => ({
      jobId,
      token,
      endOf: () => ({ event: "deferred", token, delayMs: Math.ceil(delayMs), countsAsFailure }),
    })),
    jobs,
  )

/** Returns jobs to the head of their lanes. */
export const releaseJobs = (
  tx: Transaction,
  items: ReadonlyArray<ClaimRef>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> =>
  returnToQueue(
    tx,
    items.map(({ jobId, token }) => ({
      jobId,
      token,
      endOf: ({ createdAt }) => ({ event: "released", token, createdAt }),
    })),
    jobs,
  )
