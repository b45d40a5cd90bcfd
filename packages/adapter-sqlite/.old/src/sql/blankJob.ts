import { type JobId, type RetainedData, strongerWarning, type UploadId, type WarningCode } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** What erasing needs to know of a job. */
export const retentionColumns = [
  "jobs.seq",
  "jobs.id",
  "jobs.upload_id as uploadId",
  "jobs.status",
  "jobs.retained",
  "jobs.warning_code as warningCode",
] as const

export interface RetentionRow {
  readonly seq: number
  readonly id: JobId
  readonly uploadId: UploadId | null
  readonly retained: RetainedData
  readonly warningCode: WarningCode | null
}

const deleteData = statement((given: Given<{ seq: number }>) =>
  query.deleteFrom("job_data").where("job_seq", "=", given.seq),
)

const deleteFiles = statement((given: Given<{ seq: number }>) =>
  query.deleteFrom("files").where("job_seq", "=", given.seq),
)

const eraseUpload = statement((given: Given<{ uploadId: UploadId }>) =>
  query
    .updateTable("uploads")
    .set({ erased: 1, blob_key: null, bytes: null, sha256: null, claimed_until: null, sweep_at: null })
    .where("id", "=", given.uploadId),
)

/** Last, because a trigger refuses it while anything is left. Only of a finished job, and only as it was read. */
const blankRow = statement(
  (given: Given<{ seq: number; from: RetainedData; retained: RetainedData; warningCode: WarningCode | null }>) =>
    query
      .updateTable("jobs")
      .set({ output: null, retained: given.retained, warning_code: given.warningCode })
      .where("seq", "=", given.seq)
      .where("retained", "=", given.from)
      .where("finished_at", "is not", null),
)

/** Deletes whatever a finished job retains. The row stays, and so do its codes, its times and its bill. */
export const blankJob = (tx: Transaction, job: RetentionRow, retained: "deleted" | "expired"): void => {
  tx.run(deleteData, { seq: job.seq })
  tx.run(deleteFiles, { seq: job.seq })
  if (job.uploadId !== null) tx.run(eraseUpload, { uploadId: job.uploadId })
  const warning = strongerWarning(
    job.warningCode ?? undefined,
    retained === "deleted" ? "data_deleted" : "data_expired",
  )
  if (tx.run(blankRow, { seq: job.seq, from: job.retained, retained, warningCode: warning ?? null }) !== 1)
    throw new TypeError(`${job.id} is not finished`)
  tx.noteErasure()
}
