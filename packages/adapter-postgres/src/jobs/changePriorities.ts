import { type JobId, type Priority, rankOf } from "@kiln/core/domain"
import { decodePriority } from "@kiln/sql-store"
import type { Transaction } from "../Session.ts"
import { batchStatement, integer, query, text } from "../Statement.ts"

const prioritiesInQueue = batchStatement({ id: text<JobId>() }, (item) =>
  query
    .selectFrom("queue")
    .innerJoin(item, (join) => join.onRef("item.id", "=", "queue.id"))
    .select(["queue.id", "queue.priority"]),
)

/** Reads the priorities of unfinished jobs. */
export const readPriorities = async (
  tx: Transaction,
  ids: ReadonlyArray<JobId>,
): Promise<ReadonlyMap<JobId, Priority>> => {
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
export const changePriorities = async (tx: Transaction, priorities: ReadonlyMap<JobId, Priority>): Promise<void> => {
  const changes = [...priorities].map(([id, priority]) => ({ id, rank: rankOf(priority) }))
  await tx.runBatch(changeInQueue, changes)
  await tx.runBatch(changeInJobs, changes)
}
