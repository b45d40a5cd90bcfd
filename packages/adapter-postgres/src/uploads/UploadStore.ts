import { type Orphan, type PruneResult, UploadStore } from "@kiln/core/ports"
import { transferVerbs } from "@kiln/sql-store"
import { uploadBlobPrefix, type UploadId, uploadOrphanReason } from "@kiln/core/domain"
import type { Database } from "../Database.ts"
import { ago, batchStatement, type Given, plenty, query, statement, storeTime, wholeAge } from "../Statement.ts"
import { transactionsOf } from "../transactionsOf.ts"
import type { Session, Transaction } from "../Session.ts"
import { recordPurges } from "../jobs/purges.ts"
import { isUnused } from "./uploadRow.ts"

/**
 * Uploads that no job took and that are due, oldest first: unused ones to erase, or erased ones to delete. The index contains no
 * consumed ones. Uploads locked by a job or another sweep are skipped.
 */
const dueUploads = (erased: boolean) =>
  statement((given: Given<{ dueBy: number; limit: number }>) =>
    query
      .selectFrom("uploads")
      .innerJoin(plenty, (join) => join.onTrue())
      .select("id")
      .where("erased", "=", erased)
      .where("sweep_at", "<=", given.dueBy)
      .where(isUnused)
      .orderBy("sweep_at")
      .orderBy("seq")
      .limit(given.limit)
      .forUpdate("uploads")
      .skipLocked(),
  )

const unusedUploads = dueUploads(false)
/** A consumed upload is deleted with its job. */
const erasedUploads = dueUploads(true)

/** Looks for one that is due, in the same index. */
const anyUnusedUpload = statement(() =>
  query
    .selectFrom("uploads")
    .select("id")
    .where("erased", "=", false)
    .where("sweep_at", "<=", storeTime)
    .orderBy("sweep_at")
    .limit(1),
)

/** Checks again under the lock that no job took the upload. Its record then waits for `deleteUploads`, which goes by age. */
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
    .where(isUnused)
    .returning("uploads.id"),
)

const expireUploads = async (tx: Transaction, limit: number): Promise<PruneResult> => {
  const uploads = await tx.all(unusedUploads, { dueBy: tx.now, limit })
  const erased = new Set((await tx.batch(eraseUnused, uploads, {})).map(({ id }) => id))
  const prefixes = uploads.flatMap(({ id }) => (erased.has(id) ? [uploadBlobPrefix(id)] : []))
  return { count: uploads.length, purges: await recordPurges(tx, prefixes) }
}

/** Looks for one that is due, in the same index. */
const anyErasedUpload = statement((given: Given<{ olderThanMs: number }>) =>
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

const deleteUploads = async (tx: Transaction, olderThanMs: number, limit: number): Promise<number> => {
  const uploads = await tx.all(erasedUploads, { dueBy: tx.now - olderThanMs, limit })
  return tx.runBatch(removeUploads, uploads, {})
}

const facts = batchStatement<
  { blobKey: string; uploadId: UploadId; token: number },
  {},
  {
    readonly itemKey: string
    readonly itemToken: number
    readonly erased: boolean | null
    readonly token: number | null
    readonly claimedUntil: number | null
    readonly blobKey: string | null
  }
>({ blobKey: "text", uploadId: "text", token: "bigint" }, (item) =>
  query
    .selectFrom(item)
    .leftJoin("uploads", "uploads.id", "item.uploadId")
    .select([
      "item.blobKey as itemKey",
      "item.token as itemToken",
      "uploads.erased",
      "uploads.token",
      "uploads.claimed_until as claimedUntil",
      "uploads.blob_key as blobKey",
    ])
    .orderBy("item.ord"),
)

/** The rule is the domain's: `uploadOrphanReason`. */
export const findUploadOrphans = async (
  session: Session,
  blobs: ReadonlyArray<{ readonly blobKey: string; readonly uploadId: UploadId; readonly token: number }>,
): Promise<ReadonlyArray<Orphan>> =>
  (await session.batch(facts, blobs, {})).flatMap(({ blobKey, claimedUntil, erased, itemKey, itemToken, token }) => {
    const upload =
      erased === null || token === null ? undefined : { erased, token, inTransfer: claimedUntil !== null, blobKey }
    const reason = uploadOrphanReason(upload, { blobKey: itemKey, token: itemToken })
    return reason === undefined ? [] : [{ blobKey: itemKey, reason }]
  })

/** Transfers extend their leases on the heartbeats' connections. */
export const makePostgresUploadStore = (db: Database, heartbeats: Database): UploadStore["Service"] =>
  UploadStore.of({
    ...transferVerbs(transactionsOf(db), transactionsOf(heartbeats)),
    expireUploads: (limit) =>
      db.writeIf(
        "UploadStore.expireUploads",
        (session) => session.any(anyUnusedUpload, {}),
        (tx) => expireUploads(tx, limit),
        { count: 0, purges: [] },
      ),
    deleteUploads: (age, limit) => {
      const olderThanMs = wholeAge(age)
      return db.writeIf(
        "UploadStore.deleteUploads",
        (session) => session.any(anyErasedUpload, { olderThanMs }),
        (tx) => deleteUploads(tx, olderThanMs, limit),
        0,
      )
    },
    findUploadOrphans: (blobs) =>
      db.read("UploadStore.findUploadOrphans", (session) => findUploadOrphans(session, blobs)),
  })
