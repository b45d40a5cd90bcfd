import type { RetainedData, UploadId } from "@kiln/core/domain"
import type { PruneResult } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { batchStatement, type Given, query, statement } from "../Statement.ts"
import { retentionColumns } from "./blankJobs.ts"
import { blobPrefixesOf, recordPurges } from "./purges.ts"

const finishedBy = (
  { finishedBy: time, limit }: Given<{ finishedBy: number; limit: number }>,
  retained: RetainedData,
) =>
  query
    .selectFrom("jobs")
    .select(["jobs.seq", "jobs.finished_at as finishedAt"])
    .where("retained", "=", retained)
    .where("finished_at", "<=", time)
    .orderBy("finished_at")
    .orderBy("seq")
    .limit(limit)

/** Three walks of one index, merged: the longest finished first, whatever became of their data. */
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

/** Only as they were found: another sweep may be at it, and what it has in hand is left to it. */
const lockFinished = batchStatement<
  { seq: number },
  {},
  { seq: number; id: `job_${string}`; uploadId: UploadId | null; retained: RetainedData }
>({ seq: "bigint" }, (item) =>
  query
    .selectFrom("jobs")
    .innerJoin(item, (join) => join.onRef("item.seq", "=", "jobs.seq"))
    .select(retentionColumns)
    .where("jobs.status", "is not", null)
    .orderBy("item.ord")
    .forUpdate("jobs")
    .skipLocked(),
)

/** Data and files go with the row. Charges refer to no job, and stay. */
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
  await tx.runBatch(
    removeUploads,
    jobs.flatMap(({ uploadId }) => (uploadId === null ? [] : [{ uploadId }])),
    {},
  )
  return {
    count: jobs.length,
    purges: await recordPurges(tx, jobs.filter((job) => job.retained === "kept").flatMap(blobPrefixesOf)),
  }
}
