import type { UploadId } from "@kiln/core/domain"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

/** The oldest first. The record of an upload that a job took goes with the job's. */
export const erasedUploads = statement((given: Given<{ createdBy: number; limit: number }>) =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", 1)
    .where("sweep_at", "<=", given.createdBy)
    .where((where) =>
      where.not(
        where.exists(where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id")),
      ),
    )
    .orderBy("sweep_at")
    .orderBy("seq")
    .limit(given.limit),
)

const deleteUpload = statement((given: Given<{ id: UploadId }>) =>
  query.deleteFrom("uploads").where("id", "=", given.id),
)

export const deleteUploads = (tx: Transaction, olderThanMs: number, limit: number): number => {
  const uploads = tx.all(erasedUploads, { createdBy: tx.now - olderThanMs, limit })
  for (const { id } of uploads) tx.run(deleteUpload, { id })
  return uploads.length
}
