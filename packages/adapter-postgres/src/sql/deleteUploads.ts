import type { UploadId } from "@kiln/core/domain"
import type { Transaction } from "../Session.ts"
import { ago, batchStatement, type Given, query, statement } from "../Statement.ts"

/** The oldest first. The record of an upload that a job took goes with the job's. */
export const erasedUploads = statement((given: Given<{ createdBy: number; limit: number }>) =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", true)
    .where("sweep_at", "<=", given.createdBy)
    .where((where) =>
      where.not(
        where.exists(where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id")),
      ),
    )
    .orderBy("sweep_at")
    .orderBy("seq")
    .limit(given.limit)
    .forUpdate()
    .skipLocked(),
)

/** Whether one is due, by a look into the same index. */
export const anyErasedUpload = statement((given: Given<{ olderThanMs: number }>) =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", true)
    .where("sweep_at", "<=", ago(given.olderThanMs))
    .orderBy("sweep_at")
    .limit(1),
)

const removeUploads = batchStatement<{ id: UploadId }, {}, unknown>({ id: "text" }, (item) =>
  query.deleteFrom("uploads").using(item).whereRef("uploads.id", "=", "item.id"),
)

export const deleteUploads = async (tx: Transaction, olderThanMs: number, limit: number): Promise<number> => {
  const uploads = await tx.all(erasedUploads, { createdBy: tx.now - olderThanMs, limit })
  return tx.runBatch(removeUploads, uploads, {})
}
