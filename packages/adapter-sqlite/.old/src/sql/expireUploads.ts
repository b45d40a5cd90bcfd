import { uploadBlobPrefix, type UploadId } from "@kiln/core/domain"
import type { PruneResult } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"
import { recordPurges } from "./purges.ts"

/** The index holds no upload that a job took; that none did is asked all the same. */
export const unusedUploads = statement((given: Given<{ now: number; limit: number }>) =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", 0)
    .where("sweep_at", "<=", given.now)
    .where((where) =>
      where.not(
        where.exists(where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id")),
      ),
    )
    .orderBy("sweep_at")
    .orderBy("seq")
    .limit(given.limit),
)

/** From now on its record waits for `deleteUploads`, which goes by age. */
const eraseUnused = statement((given: Given<{ id: UploadId }>) =>
  query
    .updateTable("uploads")
    .set((set) => ({
      erased: 1,
      blob_key: null,
      bytes: null,
      sha256: null,
      claimed_until: null,
      sweep_at: set.ref("created_at"),
    }))
    .where("id", "=", given.id)
    .where("erased", "=", 0),
)

export const expireUploads = (tx: Transaction, limit: number): PruneResult => {
  const uploads = tx.all(unusedUploads, { now: tx.now, limit })
  for (const { id } of uploads) tx.run(eraseUnused, { id })
  if (uploads.length > 0) tx.noteErasure()
  return {
    count: uploads.length,
    purges: recordPurges(
      tx,
      uploads.map(({ id }) => uploadBlobPrefix(id)),
    ),
  }
}
