import type { JobId } from "@kiln/core/domain"
import { Superseded } from "../connection/postgresErrors.ts"
import type { Session } from "../connection/Session.ts"
import { batchStatement, query, text } from "../Statement.ts"
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
  const jobs = await session.batch(
    statusesElsewhere,
    ids.map((id) => ({ id })),
  )
  if (jobs.some(({ status }) => status === null)) throw new Superseded()
  return new Set(jobs.map(({ id }) => id))
}
