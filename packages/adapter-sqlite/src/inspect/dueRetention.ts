import { sql } from "kysely"
import type { RetainedData } from "@kiln/core/domain"
import type { DueRetention, RetentionPeriods } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** Inclusive. */
type By = { readonly by: number }

const finished = (given: Given<By>, retained: RetainedData) =>
  query.selectFrom("jobs").where("jobs.retained", "=", retained).where("jobs.finished_at", "<=", given.by)

const total = (column: "files.bytes" | "uploads.bytes") => sql<number>`coalesce(sum(${sql.ref(column)}), 0)`.as("bytes")

const countFinished = (retained: RetainedData) =>
  statement((given: Given<By>) => finished(given, retained).select((of) => of.fn.countAll<number>().as("count")))

const counts = { kept: countFinished("kept"), expired: countFinished("expired"), deleted: countFinished("deleted") }

const bytesOfFiles = statement((given: Given<By>) =>
  finished(given, "kept").innerJoin("files", "files.job_seq", "jobs.seq").select(total("files.bytes")),
)

const bytesOfUsedUploads = statement((given: Given<By>) =>
  finished(given, "kept").innerJoin("uploads", "uploads.id", "jobs.upload_id").select(total("uploads.bytes")),
)

const sweptUploads = (erased: 0 | 1) =>
  statement((given: Given<By>) =>
    query
      .selectFrom("uploads")
      .select((of) => [of.fn.countAll<number>().as("count"), total("uploads.bytes")])
      .where("erased", "=", erased)
      .where("sweep_at", "<=", given.by)
      .where((where) =>
        where.not(
          where.exists(where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id")),
        ),
      ),
  )

const unusedUploads = sweptUploads(0)
const erasedUploads = sweptUploads(1)

/** Earlier than every time: nothing is due. */
const never = -1

/** Counts by the conditions of `expireData`, `deleteJobs`, `expireUploads` and `deleteUploads`. */
export const readDueRetention = (
  tx: Transaction,
  { dataRetentionMs, jobRetentionMs }: RetentionPeriods,
): DueRetention => {
  const dataBy = dataRetentionMs > 0 ? tx.now - dataRetentionMs : never
  const recordsBy = jobRetentionMs > 0 ? tx.now - jobRetentionMs : never
  const filesBy = { by: Math.max(dataBy, recordsBy) }
  const countOf = (retained: RetainedData, by: number): number => tx.get(counts[retained], { by })?.count ?? 0
  const unused = tx.get(unusedUploads, { by: tx.now })
  return {
    expiredData: countOf("kept", dataBy),
    deletedJobs: countOf("kept", recordsBy) + countOf("expired", recordsBy) + countOf("deleted", recordsBy),
    expiredUploads: unused?.count ?? 0,
    deletedUploads: tx.get(erasedUploads, { by: recordsBy })?.count ?? 0,
    bytes:
      (tx.get(bytesOfFiles, filesBy)?.bytes ?? 0) +
      (tx.get(bytesOfUsedUploads, filesBy)?.bytes ?? 0) +
      (unused?.bytes ?? 0),
  }
}
