import { sql } from "kysely"
import type { AttemptRecord, AttemptWait, JobId, Parking, WaitReason } from "@kiln/core/domain"
import { applyEvent, type ClaimEnd, deferralEvent, isRepeatedEnd, maxWaitRuns } from "@kiln/core/rules"
import type { ClaimRef, Deferral, FencedOutcome } from "@kiln/core/ports"
import { keepAttempts, keepParked, type KeptAttempt, type KeptParking, waitColumns } from "@kiln/sql-store"
import { batchStatement, integer, nullable, query, text } from "../Statement.ts"
import type { Transaction } from "../connection/Session.ts"
import { runOn } from "../transactionsOf.ts"
import { stateOf, type StateRow } from "./jobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { type Move, moveJobs } from "./moveJobs.ts"
import { type EventState, eventStates, type ParkedRow } from "./waitingJobs.ts"

/** Lengthens the newest run of a job, or begins another, like `withWait`. */
const putWaits = batchStatement(
  {
    seq: integer(),
    number: integer(),
    reason: text<WaitReason>(),
    subject: nullable(text()),
    cause: nullable(text()),
    at: integer(),
  },
  (item) =>
    query
      .insertInto("waits")
      .columns(["job_seq", ...waitColumns])
      .expression(
        query
          .selectFrom(item)
          .leftJoinLateral(
            (from) =>
              from
                .selectFrom("waits")
                .selectAll()
                .whereRef("waits.job_seq", "=", "item.seq")
                .orderBy("waits.first_attempt", "desc")
                .limit(1)
                .as("newest"),
            (join) =>
              join
                .on(sql<boolean>`newest.last_attempt = item.number - 1`)
                .onRef("newest.reason", "=", sql.ref("item.reason"))
                .onRef("newest.subject", "is not distinct from", "item.subject")
                .onRef("newest.cause", "is not distinct from", "item.cause"),
          )
          .select([
            "item.seq",
            sql<number>`coalesce(newest.first_attempt, item.number)`.as("first"),
            "item.number",
            sql<number>`1::bigint`.as("count"),
            "item.reason",
            "item.subject",
            "item.cause",
            "item.at",
            sql<number>`item.at`.as("last"),
          ]),
      )
      .onConflict((conflict) =>
        conflict.columns(["job_seq", "first_attempt"]).doUpdateSet((set) => ({
          last_attempt: set.ref("excluded.last_attempt"),
          last_at: set.ref("excluded.last_at"),
          count: sql<number>`waits.count + 1`,
        })),
      ),
)

/** Runs are kept up to `maxWaitRuns`, the newest. */
const dropWaits = batchStatement({ seq: integer() }, (item) =>
  query
    .deleteFrom("waits")
    .using(item)
    .whereRef("waits.job_seq", "=", "item.seq")
    .where(
      "waits.first_attempt",
      "<=",
      sql<number>`(select older.first_attempt from "kiln".waits as older where older.job_seq = item.seq
        order by older.first_attempt desc limit 1 offset ${sql.lit(maxWaitRuns)})`,
    ),
)

/** An attempt of a locked job that ends to wait. */
interface KeptWait {
  readonly seq: number
  readonly number: number
  readonly wait: AttemptWait
}

/** Keeps that these attempts, which end in this transaction, ended to wait. */
const keepWaits = async (tx: Transaction, waits: ReadonlyArray<KeptWait>): Promise<void> => {
  await Promise.all([
    tx.runBatch(
      putWaits,
      waits.map(({ number, seq, wait: { cause, reason, subject } }) => ({
        seq,
        number,
        reason,
        subject,
        cause,
        at: tx.now,
      })),
    ),
    tx.runBatch(
      dropWaits,
      waits.filter(({ number }) => number > maxWaitRuns),
    ),
  ])
}

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
    if (item.record !== undefined) attempts.push({ jobSeq: job.seq, number: to.attempts, record: item.record })
    if (item.park !== undefined) {
      const row = parkedRow(job, item.park)
      const { reason, subject } = row
      parked.push({ jobSeq: job.seq, token: to.token, reason, subject, unfinished: stateOfEvent(row).unfinished })
      return "Written"
    }
    if (item.wait !== undefined) waits.push({ seq: job.seq, number: to.attempts, wait: item.wait })
    return "Written"
  })
  const all = [...moves.values()]
  tx.commitWith(
    moveJobs(tx, all),
    runOn(tx, (common) => keepAttempts(common, attempts)),
    keepWaits(tx, waits),
    runOn(tx, (common) => keepParked(common, parked)),
    mayBeClaimableAt(
      tx,
      all.map(({ from, to }) => ({ laneId: from.laneId, claimableAt: to.claimableAt })),
    ),
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
