import { type JobId, type RetainedData, strongerWarning, type UploadId, type WarningCode } from "@kiln/core/domain"
import type { Transaction } from "../Session.ts"
import { batchStatement, query } from "../Statement.ts"

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

const deleteData = batchStatement<{ seq: number }, {}, unknown>({ seq: "bigint" }, (item) =>
  query.deleteFrom("job_data").using(item).whereRef("job_data.job_seq", "=", "item.seq"),
)

const deleteFiles = batchStatement<{ seq: number }, {}, unknown>({ seq: "bigint" }, (item) =>
  query.deleteFrom("files").using(item).whereRef("files.job_seq", "=", "item.seq"),
)

const eraseUploads = batchStatement<{ uploadId: UploadId }, {}, unknown>({ uploadId: "text" }, (item) =>
  query
    .updateTable("uploads")
    .from(item)
    .set({ erased: true, blob_key: null, bytes: null, sha256: null, claimed_until: null, sweep_at: null })
    .whereRef("uploads.id", "=", "item.uploadId"),
)

/** Last, because a trigger refuses it while anything is left. Only of a finished job, and only as it was read. */
const blankRows = batchStatement<
  { seq: number; from: RetainedData; warningCode: string | null },
  { retained: RetainedData },
  unknown
>({ seq: "bigint", from: "text", warningCode: "text" }, (item, given) =>
  query
    .updateTable("jobs")
    .from(item)
    .set((set) => ({
      output: null,
      retained: given.retained,
      warning_code: set.ref("item.warningCode").$castTo<WarningCode | null>(),
    }))
    .whereRef("jobs.seq", "=", "item.seq")
    .whereRef("jobs.retained", "=", "item.from")
    .where("jobs.status", "is not", null),
)

/** The uploads of jobs, in the order of their ids, as everybody locks uploads. */
export const uploadsOf = (
  jobs: ReadonlyArray<{ readonly uploadId: UploadId | null }>,
): ReadonlyArray<{ readonly uploadId: UploadId }> =>
  jobs
    .flatMap(({ uploadId }) => (uploadId === null ? [] : [{ uploadId }]))
    .toSorted((a, b) => (a.uploadId < b.uploadId ? -1 : 1))

/** Deletes whatever finished jobs retain. The rows stay, and so do their codes, times and bills. The jobs were locked by this transaction. */
export const blankJobs = async (
  tx: Transaction,
  jobs: ReadonlyArray<RetentionRow>,
  retained: "deleted" | "expired",
): Promise<void> => {
  const added = retained === "deleted" ? "data_deleted" : "data_expired"
  await Promise.all([
    tx.runBatch(
      deleteData,
      jobs.map(({ seq }) => ({ seq })),
      {},
    ),
    tx.runBatch(
      deleteFiles,
      jobs.map(({ seq }) => ({ seq })),
      {},
    ),
    tx.runBatch(eraseUploads, uploadsOf(jobs), {}),
  ])
  const blanked = await tx.runBatch(
    blankRows,
    jobs.map(({ retained: from, seq, warningCode }) => ({
      seq,
      from,
      warningCode: strongerWarning(warningCode ?? undefined, added) ?? null,
    })),
    { retained },
  )
  if (blanked !== jobs.length) throw new TypeError(`${jobs.length - blanked} jobs to be erased were not finished`)
}
