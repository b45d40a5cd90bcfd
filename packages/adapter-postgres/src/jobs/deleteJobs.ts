import { blobPrefixesOf, type RetainedData, type UploadId } from "@kiln/core/domain"
import type { PruneResult } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { ago, batchStatement, type Given, query, statement } from "../Statement.ts"
import { retentionColumns, uploadsOf } from "./eraseJobs.ts"
import { retainedPart } from "./jobRow.ts"
import { recordPurges } from "./purges.ts"

const finishedBy = (
  { finishedBy: time, limit }: Given<{ finishedBy: number; limit: number }>,
  retained: RetainedData,
) =>
  query
    .selectFrom("results")
    .select(["results.job_seq as seq", "results.finished_at as finishedAt"])
    .where(retainedPart, "=", retained)
    .where("finished_at", "<=", time)
    .orderBy("finished_at")
    .orderBy("job_seq")
    .limit(limit)

/** Finished jobs, oldest first, merged from three parts of the index: data kept, expired and deleted. */
export const finishedJobs = statement((given: Given<{ finishedBy: number; limit: number }>) =>
  query
    .selectFrom((from) =>
      from
        .selectFrom(finishedBy(given, "kept").as("kept"))
        .selectAll()
        .unionAll(query.selectFrom(finishedBy(given, "expired").as("expired")).selectAll())
        .unionAll(query.selectFrom(finishedBy(given, "deleted").as("deleted")).selectAll())
        .orderBy("finishedAt")
        .orderBy("seq")
        .limit(given.limit)
        .as("oldest"),
    )
    .select("oldest.seq"),
)

/** Looks for one that is due in each of the three parts of the index. */
export const anyFinishedJob = statement((given: Given<{ olderThanMs: number }>) => {
  const oldest = (retained: RetainedData) =>
    query
      .selectFrom("results")
      .select("finished_at as finishedAt")
      .where(retainedPart, "=", retained)
      .where("finished_at", "<=", ago(given.olderThanMs))
      .orderBy("finished_at")
      .limit(1)
  return query
    .selectFrom((from) =>
      from
        .selectFrom(oldest("kept").as("kept"))
        .selectAll()
        .unionAll(query.selectFrom(oldest("expired").as("expired")).selectAll())
        .unionAll(query.selectFrom(oldest("deleted").as("deleted")).selectAll())
        .as("oldest"),
    )
    .select("oldest.finishedAt")
    .limit(1)
})

/** Locks the jobs that were found. Jobs locked by another sweep are skipped. */
const lockFinished = batchStatement<
  { seq: number },
  {},
  { seq: number; id: `job_${string}`; uploadId: UploadId | null; retained: RetainedData }
>({ seq: "bigint" }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) => join.onRef("item.seq", "=", "jobs.seq"))
    .innerJoin("results", "results.job_seq", "jobs.seq")
    .select(retentionColumns)
    .orderBy("item.ord")
    .forUpdate(["results", "jobs"])
    .skipLocked(),
)

/** Result, data and files are deleted with the row. Charges stay. */
const removeJobs = batchStatement<{ seq: number }, {}, unknown>({ seq: "bigint" }, (item) =>
  query.deleteFrom("jobs").using(item).whereRef("jobs.seq", "=", "item.seq"),
)

const removeUploads = batchStatement<{ uploadId: UploadId }, {}, unknown>({ uploadId: "text" }, (item) =>
  query.deleteFrom("uploads").using(item).whereRef("uploads.id", "=", "item.uploadId"),
)

export const deleteJobs = async (tx: Transaction, olderThanMs: number, limit: number): Promise<PruneResult> => {
  const found = await tx.all(finishedJobs, { finishedBy: tx.now - olderThanMs, limit })
  const jobs = await tx.batch(lockFinished, found, {})
  await tx.runBatch(
    removeJobs,
    jobs.map(({ seq }) => ({ seq })),
    {},
  )
  await tx.runBatch(removeUploads, uploadsOf(jobs), {})
  return {
    count: jobs.length,
    purges: await recordPurges(tx, jobs.filter((job) => job.retained === "kept").flatMap(blobPrefixesOf)),
  }
}
