import { sql } from "kysely"
import type { JobId, JobState, WarningCode } from "@kiln/core/domain"
import { assign, batchStatement, camel, fieldsOf, flag, type Given, integer, query, text } from "../Statement.ts"
import { stateNames } from "@kiln/sql-store"
import { fieldsFrom, type JsonText } from "../columns.ts"
import type { Session, Transaction } from "../connection/Session.ts"
import { Superseded } from "../connection/postgresErrors.ts"
import { stateColumns, type StateRow } from "./jobRow.ts"

/** Locks jobs in the queue until the transaction ends, in the order of their ids to avoid deadlocks. */
const lockJobs = batchStatement({ id: text<JobId>() }, (item) =>
  query
    .selectFrom("queue")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "queue.id"))
    .select(stateColumns)
    .orderBy("queue.id")
    .forUpdate("queue"),
)

/** The same, and locks their lanes against `settle_lanes`: for verbs that make a job claimable earlier. */
const lockJobsAndLanes = batchStatement({ id: text<JobId>() }, (item) =>
  query
    .selectFrom("queue")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "queue.id"))
    .innerJoin("lanes", "lanes.id", "queue.lane_id")
    .select(stateColumns)
    .orderBy("queue.id")
    .forUpdate("queue")
    .forKeyShare("lanes"),
)

type JobRefs = ReadonlyArray<{ readonly jobId: JobId }>
const idsOf = (items: JobRefs) => items.map(({ jobId: id }) => ({ id }))

export const refsTo = (ids: Iterable<JobId>): JobRefs => Array.from(ids, (jobId) => ({ jobId }))

/** Locks and returns the jobs of these items that are in the queue. */
export const lockedJobs = (session: Session, items: JobRefs): Promise<ReadonlyArray<StateRow>> =>
  session.batch(lockJobs, idsOf(items))

export const lockedJobsAndLanes = (session: Session, items: JobRefs): Promise<ReadonlyArray<StateRow>> =>
  session.batch(lockJobsAndLanes, idsOf(items))

/** The final state of finished jobs. */
export const finishedStates = batchStatement({ id: text<JobId>() }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "jobs.id"))
    .innerJoin("results", "results.job_seq", "jobs.seq")
    .select(["jobs.id", "results.status", "results.token", "results.error_code as errorCode"]),
)

const statusesElsewhere = batchStatement({ id: text<JobId>() }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "jobs.id"))
    .leftJoin("results", "results.job_seq", "jobs.seq")
    .select(["jobs.id", "results.status"]),
)

/**
 * Returns which jobs have finished, of those that were not in the queue when they were to be locked. Throws `Superseded` if one has not: the lock
 * waited for a transaction that has replaced its request, and so its row in the queue.
 */
export const finishedElsewhere = async (session: Session, ids: ReadonlyArray<JobId>): Promise<ReadonlySet<JobId>> => {
  const jobs = await session.batch(statusesElsewhere, idsOf(refsTo(ids)))
  if (jobs.some(({ status }) => status === null)) throw new Superseded()
  return new Set(jobs.map(({ id }) => id))
}

/** A locked job and its next state. */
export interface Move {
  readonly from: StateRow
  readonly to: JobState
}

/** The end of a job, with its result. */
export interface Ending extends Move {
  readonly output: JsonText | null
  readonly warningCode: WarningCode | null
  readonly charge: JsonText | null
}

/** Fails the statement unless it wrote every item. They were locked when the moves were computed, so a miss is a defect. */
const requireAll = ({ expected }: Given<{ expected: number }>) =>
  sql`"kiln".require_all(count(*), ${expected}::bigint)`.as("required")

/**
 * The state that a move was computed from: status, held and token are the fence, so an attempt that lost its claim cannot write even if
 * the caller did not check.
 */
const isAsRead = sql<boolean>`queue.id = item.id and queue.status = item."fromStatus" and queue.held = item."fromHeld"
  and queue.token = item."fromToken"`

const fence = { id: text<JobId>(), fromStatus: text(), fromHeld: flag(), fromToken: integer() }

const asRead = ({ held: fromHeld, id, status: fromStatus, token: fromToken }: StateRow) => ({
  id,
  fromStatus,
  fromHeld,
  fromToken,
})

/** Moves jobs that stay in the queue. */
const updateQueue = batchStatement(
  {
    ...fence,
    ...fieldsFrom("queue", ...stateNames),
    status: text(),
  },
  (item, given: Given<{ expected: number }>) =>
    query
      .with("moved", () =>
        query
          .updateTable("queue")
          .from(item)
          .set({
            ...assign(fieldsOf(item), ...stateNames),
            status: sql`${fieldsOf(item).status}`,
            claim_id: null,
          })
          .where(isAsRead)
          .returning("queue.id"),
      )
      .selectFrom("moved")
      .select(requireAll(given)),
)

/** Moves locked jobs that stay unfinished. */
export const moveJobs = async (tx: Transaction, moves: ReadonlyArray<Move>): Promise<void> => {
  await tx.batch(
    updateQueue,
    moves.map(({ from, to }) => ({
      ...to,
      ...asRead(from),
      claimableAt: known(to.claimableAt),
      deadlineAt: known(to.deadlineAt),
      phaseStartedAt: known(to.phaseStartedAt),
    })),
    { expected: moves.length },
  )
}

/** What a result keeps of its row in the queue, and what the end of the job adds, or changes. */
const ofQueue = ["job_seq", "project_id", "kind", "mode", "created_at"] as const
const counted = ["status", "token", "ran_ms", "waited_ms", "attempts", "failures", "lost_workers"] as const
const ofEnd = [...counted, "finished_at", "error_code", "warning_code", "charge", "output"] as const

/**
 * Ends jobs in one statement: deletes their rows in the queue, with the fence in the WHERE clause, and inserts their results.
 * Triggers write the ledger and delete checkpoints.
 */
const finish = batchStatement(
  {
    ...fence,
    ...fieldsFrom("results", ...ofEnd),
    status: text(),
  },
  (item, given: Given<{ expected: number }>) =>
    query
      .with("ended", () =>
        query
          .deleteFrom("queue")
          .using(item)
          .where(isAsRead)
          .returning(ofQueue.map((name) => `queue.${name}` as const))
          .returningAll("item"),
      )
      .with("finished", (from) =>
        from
          .insertInto("results")
          .columns([...ofQueue, "job_id", ...ofEnd])
          .expression(from.selectFrom("ended").select([...ofQueue, "id", ...ofEnd.map(camel)] as never))
          .returning("results.job_seq"),
      )
      .selectFrom("finished")
      .select(requireAll(given)),
)

/** Ends jobs that were locked; in the order of their ids, in which erasures lock them too. */
export const finishJobs = async (tx: Transaction, unsorted: ReadonlyArray<Ending>): Promise<void> => {
  const endings = unsorted.toSorted((a, b) => (a.from.id < b.from.id ? -1 : 1))
  await tx.batch(
    finish,
    endings.map(({ from, to, ...result }) => ({
      ...to,
      ...asRead(from),
      ...result,
      finishedAt: known(to.finishedAt),
    })),
    { expected: endings.length },
  )
}

export const withoutResult = (move: Move): Ending => ({ ...move, output: null, warningCode: null, charge: null })

const known = (time: number | null): number => {
  if (time === null) throw new TypeError("a job's times follow from its status")
  return time
}
