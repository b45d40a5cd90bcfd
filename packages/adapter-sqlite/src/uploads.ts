import {
  type JobMode,
  type KeptBytes,
  type ProjectId,
  type Upload,
  uploadBlobPrefix,
  type UploadId,
  uploadOrphanReason,
} from "@kiln/core/domain"
import { type Orphan, type PruneResult, UploadStore } from "@kiln/core/ports"
import { findUpload as find, keptBytes as kept, selectUploads, transferVerbs } from "@kiln/sql-store"
import { select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { countedInParts, prunedInParts } from "./disk/inParts.ts"
import { recordPurges } from "./jobs/purges.ts"
import { type Given, query, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"
import { runIn, transactionsOf } from "./transactionsOf.ts"

type UploadKey = Values<"uploads", "id">

/** The upload of another key, project or mode counts as unknown. */
export const ownUpload = statement((given: Given<Values<"uploads", "id" | "project_id" | "key_id" | "mode">>) =>
  selectUploads
    .where("uploads.id", "=", given.id)
    .where("uploads.project_id", "=", given.projectId)
    .where("uploads.key_id", "=", given.keyId)
    .where("uploads.mode", "=", given.mode),
)

/** In a transaction that creates or claims jobs. */
export const findUpload = (tx: Transaction, id: UploadId): Upload | undefined => runIn(tx, (common) => find(common, id))

export const keptBytes = (tx: Transaction, projectId: ProjectId, mode: JobMode): KeptBytes =>
  runIn(tx, (common) => kept(common, projectId, mode))

/** Uploads of one kind whose `sweep_at` has come. The index holds none that a job took; the subquery checks it anyway. */
const sweptUploads = ({ limit, now }: Given<{ readonly now: number; readonly limit: number }>, erased: 0 | 1) =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", erased)
    .where("sweep_at", "<=", now)
    .where((where) =>
      where.not(
        where.exists(where.selectFrom("jobs").select("jobs.seq").whereRef("jobs.upload_id", "=", "uploads.id")),
      ),
    )
    .orderBy("sweep_at")
    .orderBy("seq")
    .limit(limit)

export const unusedUploads = statement((given: Given<{ readonly now: number; readonly limit: number }>) =>
  sweptUploads(given, 0),
)

/** Oldest first. The record of an upload that a job took is deleted with the job's record. */
export const erasedUploads = statement((given: Given<{ readonly now: number; readonly limit: number }>) =>
  sweptUploads(given, 1),
)

/** From now on, the record waits for `deleteUploads`, which deletes by age. */
const eraseUnused = statement((given: Given<UploadKey>) =>
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

const expireUploads = (tx: Transaction, limit: number): PruneResult => {
  const uploads = tx.all(unusedUploads, { now: tx.now, limit })
  for (const { id } of uploads) tx.run(eraseUnused, { id })
  if (uploads.length > 0) tx.noteErasure()
  const prefixes = uploads.map(({ id }) => uploadBlobPrefix(id))
  return { count: uploads.length, purges: recordPurges(tx, prefixes) }
}

const deleteUpload = statement((given: Given<UploadKey>) => query.deleteFrom("uploads").where("id", "=", given.id))

const deleteUploads = (tx: Transaction, olderThanMs: number, limit: number): number => {
  const uploads = tx.all(erasedUploads, { now: tx.now - olderThanMs, limit })
  for (const { id } of uploads) tx.run(deleteUpload, { id })
  return uploads.length
}

const transferState = statement((given: Given<UploadKey>) =>
  query
    .selectFrom("uploads")
    .select(select("uploads", "erased", "token", "claimed_until", "blob_key"))
    .where("id", "=", given.id),
)

/** The rule is `uploadOrphanReason`. */
export const findUploadOrphans = (
  tx: Transaction,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly uploadId: UploadId; readonly token: number }>,
): ReadonlyArray<Orphan> =>
  blobs.flatMap(({ blobKey, token, uploadId: id }) => {
    const row = tx.get(transferState, { id })
    const upload = row && {
      erased: row.erased === 1,
      token: row.token,
      inTransfer: row.claimedUntil !== null,
      blobKey: row.blobKey,
    }
    const reason = uploadOrphanReason(upload, { blobKey, token })
    return reason === undefined ? [] : [{ blobKey, reason }]
  })

export const makeSqliteUploadStore = (db: Database): UploadStore["Service"] =>
  UploadStore.of({
    ...transferVerbs(transactionsOf(db)),
    expireUploads: (limit) =>
      prunedInParts(limit, (part) => db.write("UploadStore.expireUploads", (tx) => expireUploads(tx, part))),
    deleteUploads: (olderThanMs, limit) =>
      countedInParts(limit, (part) =>
        db.write("UploadStore.deleteUploads", (tx) => deleteUploads(tx, olderThanMs, part)),
      ),
    findUploadOrphans: (blobs) => db.read("UploadStore.findUploadOrphans", (tx) => findUploadOrphans(tx, blobs)),
  })
