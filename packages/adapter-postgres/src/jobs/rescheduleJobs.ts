import { isParked, type JobId, type Priority, rankOf, rescheduling } from "@kiln/core/domain"
import type { RescheduleOutcome, Rescheduling } from "@kiln/core/ports"
import { decodePriority } from "@kiln/sql-store"
import type { Transaction } from "../connection/Session.ts"
import { batchStatement, integer, query, text } from "../Statement.ts"
import { stateOf, type StateRow } from "./jobRow.ts"
import { mayBeClaimableAt } from "./lanes.ts"
import { finishedElsewhere } from "./lockJobs.ts"
import { type Move, moveJobs } from "./writeStates.ts"

/** The tokens since which jobs are, or were, parked. */
const parkedTokens = batchStatement({ seq: integer() }, (item) =>
  query
    .selectFrom("parked")
    .innerJoin(item, (join) => join.onRef("item.seq", "=", "parked.job_seq"))
    .select(["item.seq", "parked.token"]),
)

/**
 * Changes when waiting jobs may be claimed, and lowers `next_at` of their lanes, or changes their priority. The jobs and lanes were locked
 * by this transaction.
 */
export const rescheduleJobs = async (
  tx: Transaction,
  items: ReadonlyArray<Rescheduling>,
  jobs: ReadonlyArray<StateRow>,
): Promise<ReadonlyArray<RescheduleOutcome>> => {
  const queued = new Map(jobs.map((job) => [job.id, job]))
  const elsewhere = items.flatMap(({ jobId }) => (queued.has(jobId) ? [] : [jobId]))
  const prioritized = new Set(items.flatMap(({ jobId, priority }) => (priority === undefined ? [] : [jobId])))
  const [finished, tokens, before] = await Promise.all([
    finishedElsewhere(tx, elsewhere),
    tx.batch(parkedTokens, jobs),
    readPriorities(
      tx,
      [...prioritized].filter((id) => queued.has(id)),
    ),
  ])
  const priorities = new Map<JobId, Priority>()
  const parked = new Map(tokens.map((row) => [row.seq, row]))
  const moves = new Map<JobId, Move>()
  const outcomes = items.map((item): RescheduleOutcome => {
    const { jobId } = item
    const job = queued.get(jobId)
    if (job === undefined) return finished.has(jobId) ? "AlreadyFinished" : "NotFound"
    const present = moves.get(jobId)?.to ?? stateOf(job)
    // Without a new one, the priority does not matter.
    const priority = priorities.get(jobId) ?? before.get(jobId) ?? "normal"
    const decided = rescheduling({ ...present, priority }, isParked(parked.get(job.seq), present), item, tx.now)
    if (typeof decided === "string") return decided
    if (decided.priority !== priority) priorities.set(jobId, decided.priority)
    if (decided.state !== undefined) moves.set(jobId, { from: job, to: decided.state })
    return "Rescheduled"
  })
  await changePriorities(tx, priorities)
  const all = [...moves.values()]
  if (all.length === 0) return outcomes
  tx.commitWith(moveJobs(tx, all))
  await mayBeClaimableAt(
    tx,
    all.map(({ from, to }) => ({ laneId: from.laneId, claimableAt: to.claimableAt })),
  )
  return outcomes
}

const prioritiesInQueue = batchStatement({ id: text<JobId>() }, (item) =>
  query
    .selectFrom("queue")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "queue.id"))
    .select(["queue.id", "queue.priority"]),
)

/** Reads the priorities of unfinished jobs. */
const readPriorities = async (tx: Transaction, ids: ReadonlyArray<JobId>): Promise<ReadonlyMap<JobId, Priority>> => {
  const rows = await tx.batch(
    prioritiesInQueue,
    ids.map((id) => ({ id })),
  )
  return new Map(rows.map(({ id, priority }) => [id, decodePriority(priority, id)]))
}

const changeInQueue = batchStatement({ id: text<JobId>(), rank: integer() }, (item) =>
  query
    .updateTable("queue")
    .from(item)
    .set((set) => ({ priority: set.ref("item.rank") }))
    .whereRef("queue.id", "=", "item.id"),
)

const changeInJobs = batchStatement({ id: text<JobId>(), rank: integer() }, (item) =>
  query
    .updateTable("jobs")
    .from(item)
    .set((set) => ({ priority: set.ref("item.rank") }))
    .whereRef("jobs.id", "=", "item.id"),
)

/** Changes the priorities of jobs that were locked. A trigger compares the two rows of each, so the queue comes first. */
const changePriorities = async (tx: Transaction, priorities: ReadonlyMap<JobId, Priority>): Promise<void> => {
  const changes = [...priorities].map(([id, priority]) => ({ id, rank: rankOf(priority) }))
  await tx.runBatch(changeInQueue, changes)
  await tx.runBatch(changeInJobs, changes)
}
