import { blobPrefixesOf, type RetainedData, type UploadId } from "@kiln/core/domain"
import type { PruneResult } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { retentionColumns } from "./blankJob.ts"
import { recordPurges } from "./purges.ts"

const finishedBy = ({ finishedBy: time }: Pick<Given<{ finishedBy: number }>, "finishedBy">, retained: RetainedData) =>
  query
    .selectFrom("jobs")
    .select(retentionColumns)
    .select("jobs.finished_at as finishedAt")
    .where("retained", "=", retained)
    .where("finished_at", "<=", time)

/** Three walks of one index, merged: the longest finished first, whatever became of their data. */
export const finishedJobs = statement((given: Given<{ finishedBy: number; limit: number }>) =>
  finishedBy(given, "kept")
    .unionAll(finishedBy(given, "expired"))
    .unionAll(finishedBy(given, "deleted"))
    .orderBy("finishedAt")
    .orderBy("seq")
    .limit(given.limit),
)

/** Data and files go with the row. Charges refer to no job, and stay. */
const deleteJob = statement((given: Given<{ seq: number }>) => query.deleteFrom("jobs").where("seq", "=", given.seq))

const deleteUpload = statement((given: Given<{ uploadId: UploadId }>) =>
  query.deleteFrom("uploads").where("id", "=", given.uploadId),
)

export const deleteJobs = (tx: Transaction, olderThanMs: number, limit: number): PruneResult => {
  const jobs = tx.all(finishedJobs, { finishedBy: tx.now - olderThanMs, limit })
  for (const { seq, uploadId } of jobs) {
    tx.run(deleteJob, { seq })
    if (uploadId !== null) tx.run(deleteUpload, { uploadId })
  }
  if (jobs.length > 0) tx.noteErasure()
  return {
    count: jobs.length,
    purges: recordPurges(tx, jobs.filter((job) => job.retained === "kept").flatMap(blobPrefixesOf)),
  }
}
