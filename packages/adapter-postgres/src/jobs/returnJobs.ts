import {
  applyEvent,
  type AttemptRecord,
  type AttemptWait,
  type ClaimEnd,
  deferralEvent,
  isRepeatedEnd,
  type JobId,
  type Parking,
} from "@kiln/core/domain"
import type { ClaimRef, Deferral, FencedOutcome } from "@kiln/core/ports"
import { keepAttempts, keepWaits, type KeptAttempt, type KeptWait } from "./attempts.ts"
import { stateOf, type StateRow } from "./jobRow.ts"
import type { Transaction } from "../connection/Session.ts"
import { type Move, moveJobs } from "./writeStates.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { type EventState, eventStates, keepParked, type KeptParking, type ParkedRow } from "./signals.ts"

/** The end of one claim of a batch. */
interface Return extends ClaimRef {
  readonly endOf: (job: StateRow, eventOf: (park: Parking) => EventState) => ClaimEnd
  readonly record?: AttemptRecord | undefined
  readonly wait?: AttemptWait | undefined
  readonly park?: Parking | undefined
}

/**
 * Ends claims of jobs that stay in the queue, and lowers `next_at` of their lanes. The jobs and lanes were locked by this
 * transaction. A repeat, also within the batch, is recognized and writes nothing.
 */
const returnToQueue = async (
  tx: Transaction,
  items: ReadonlyArray<Return>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> => {
  const queued = new Map(jobs.map((job) => [job.id, job]))
  const moves = new Map<JobId, Move>()
  const attempts: Array<KeptAttempt> = []
  const waits: Array<KeptWait> = []
  const parked: Array<KeptParking> = []
  const stateOfEvent = await eventStates(
    tx,
    items.flatMap(({ jobId, park }) => {
      const job = queued.get(jobId)
      return park === undefined || job === undefined ? [] : [parkedRow(job, park)]
    }),
  )
  const outcomes = items.map((item): FencedOutcome => {
    const job = queued.get(item.jobId)
    // A job that has left the queue was not returned by this claim.
    if (job === undefined) return "LeaseLost"
    const present = moves.get(job.id)?.to ?? stateOf(job)
    const end = item.endOf(job, (park) => stateOfEvent(parkedRow(job, park)))
    const to = applyEvent(present, end, tx.now)
    if (to === undefined) return isRepeatedEnd(present, end) ? "Written" : "LeaseLost"
    moves.set(job.id, { from: job, to })
    if (item.record !== undefined) attempts.push({ seq: job.seq, number: to.attempts, record: item.record })
    if (item.park !== undefined) {
      const row = parkedRow(job, item.park)
      parked.push({ ...row, token: to.token, unfinished: stateOfEvent(row).unfinished })
      return "Written"
    }
    if (item.wait !== undefined) waits.push({ seq: job.seq, number: to.attempts, wait: item.wait })
    return "Written"
  })
  const all = [...moves.values()]
  tx.commitWith(moveJobs(tx, all), keepAttempts(tx, attempts), keepWaits(tx, waits), keepParked(tx, parked))
  await mayBeClaimableAt(
    tx,
    all.map(({ from, to }) => ({ laneId: from.laneId, claimableAt: to.claimableAt })),
  )
  return outcomes
}

const parkedRow = ({ id, seq }: StateRow, { reason, subject }: Parking): ParkedRow => ({ id, seq, reason, subject })

/** Milliseconds until a job looks again that may not be woken. Seldom needed, and most transactions have ended by then. */
const unsurePauseMs = 50

/** Lets a job that may not be woken look again. If it is woken nevertheless, that comes first. */
const surely = (item: Deferral, eventOf: (park: Parking) => EventState, now: number): Deferral => {
  const { park } = item
  if (park === undefined || !eventOf(park).isUnsure) return item
  return { ...item, park: { ...park, until: Math.min(park.until ?? Infinity, now + unsurePauseMs) } }
}

/** Returns jobs for a later attempt, or parks them. A provider's Retry-After may contain fractions of a millisecond; store time does not. */
export const deferJobs = (
  tx: Transaction,
  items: ReadonlyArray<Deferral>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<FencedOutcome>> =>
  returnToQueue(
    tx,
    items.map((item) => ({
      jobId: item.jobId,
      token: item.token,
      ...(item.park === undefined ? { record: item.record, wait: item.wait } : { park: item.park }),
      endOf: (_, eventOf) => deferralEvent(surely(item, eventOf, tx.now), tx.now, (park) => eventOf(park).hasCome),
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
