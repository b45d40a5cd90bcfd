import { uploadBlobPrefix, type UploadId } from "@kiln/core/domain"
import type { PruneResult } from "@kiln/core/ports"
import type { Transaction } from "../Session.ts"
import { batchStatement, type Given, query, statement, storeTime } from "../Statement.ts"
import { recordPurges } from "./purges.ts"

/** The index holds no upload that a job took. What another has in hand, a job that takes it or a sweep, is left to it. */
export const unusedUploads = statement((given: Given<{ now: number; limit: number }>) =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", false)
    .where("sweep_at", "<=", given.now)
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
export const anyUnusedUpload = statement(() =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", false)
    .where("sweep_at", "<=", storeTime)
    .orderBy("sweep_at")
    .limit(1),
)

/** That no job took it is asked once more, now that it is locked. From now on its record waits for `deleteUploads`, which goes by age. */
const eraseUnused = batchStatement<{ id: UploadId }, {}, { readonly id: UploadId }>({ id: "text" }, (item) =>
  query
    .updateTable("uploads")
    .from(item)
    .set((set) => ({
      erased: true,
      blob_key: null,
      bytes: null,
      sha256: null,
      claimed_until: null,
      sweep_at: set.ref("uploads.created_at"),
    }))
    .whereRef("uploads.id", "=", "item.id")
    .where((where) =>
      where.not(
        where.exists(where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id")),
      ),
    )
    .returning("uploads.id"),
)

export const expireUploads = async (tx: Transaction, limit: number): Promise<PruneResult> => {
  const uploads = await tx.all(unusedUploads, { now: tx.now, limit })
  const erased = new Set((await tx.batch(eraseUnused, uploads, {})).map(({ id }) => id))
  const prefixes = uploads.flatMap(({ id }) => (erased.has(id) ? [uploadBlobPrefix(id)] : []))
  return { count: uploads.length, purges: await recordPurges(tx, prefixes) }
}
