import {
  exceedsCap,
  holdsTransfer,
  isRepeatedGivingUp,
  isRepeatedReceipt,
  judgeTransfer,
  judgeUpload,
  type Upload,
  uploadBlobPrefix,
  type UploadId,
  uploadOrphanReason,
} from "@kiln/core/domain"
import {
  type ClaimUploadOutcome,
  type CreateUploadOutcome,
  type FencedOutcome,
  type NewTransfer,
  type NewUpload,
  type Orphan,
  type PruneResult,
  type TransferRef,
  UploadStore,
} from "@kiln/core/ports"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { countedInParts, prunedInParts } from "./disk/inParts.ts"
import { recordPurges } from "./jobs/purges.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"
import { countWaiting, keptBytes, nothingKept, storedBytes } from "./uploadCounts.ts"

type UploadKey = Values<"uploads", "id">

// Reading

/** The unique `upload_id` of a job tells which job consumed the upload. */
const selectUploads = query
  .selectFrom("uploads")
  .leftJoin("jobs", "jobs.upload_id", "uploads.id")
  .select(
    select(
      "uploads",
      "id",
      "project_id",
      "key_id",
      "mode",
      "format",
      "declared_seconds",
      "created_at",
      "expires_at",
      "usable_until",
      "token",
      "claimed_until",
      "transfers",
      "blob_key",
      "bytes",
      "sha256",
      "erased",
    ),
  )
  .select("jobs.id as jobId")

const uploadById = statement((given: Given<UploadKey>) => selectUploads.where("uploads.id", "=", given.id))

/** The upload of another key, project or mode counts as unknown. */
export const ownUpload = statement((given: Given<Values<"uploads", "id" | "project_id" | "key_id" | "mode">>) =>
  selectUploads
    .where("uploads.id", "=", given.id)
    .where("uploads.project_id", "=", given.projectId)
    .where("uploads.key_id", "=", given.keyId)
    .where("uploads.mode", "=", given.mode),
)

export const uploadOf = (row: RowOf<typeof uploadById>): Upload => {
  const { blobKey, bytes, erased, sha256, ...upload } = row
  const file = blobKey === null || bytes === null || sha256 === null ? null : { blobKey, bytes, sha256 }
  return { ...upload, file, erased: erased === 1 }
}

/** By id alone, because the signed URL is the authorization. */
export const findUpload = (tx: Transaction, id: UploadId): Upload | undefined => {
  const row = tx.get(uploadById, { id })
  return row && uploadOf(row)
}

// Transfers

type NewRow =
  | "id"
  | "project_id"
  | "key_id"
  | "mode"
  | "format"
  | "declared_seconds"
  | "created_at"
  | "expires_at"
  | "usable_until"

/** The sweep looks at an upload once no job may use it any more. */
const insertUpload = statement((given: Given<Values<"uploads", NewRow>>) =>
  query.insertInto("uploads").values({
    ...assign(given, "id", "project_id", "key_id", "mode", "format", "declared_seconds"),
    ...assign(given, "created_at", "expires_at", "usable_until"),
    token: 0,
    transfers: 0,
    sweep_at: given.usableUntil,
  }),
)

const createUploads = (tx: Transaction, uploads: ReadonlyArray<NewUpload>): ReadonlyArray<CreateUploadOutcome> =>
  uploads.map((upload) => {
    const { cap, projectId } = upload
    const waiting = cap === undefined ? 0 : countWaiting(tx, projectId, cap.maxTransfers)
    const outcome = judgeUpload(upload, waiting, tx.now)
    if (outcome !== "UploadsFull") tx.run(insertUpload, outcome)
    return outcome
  })

type Transfer = Values<"uploads", "id" | "token" | "claimed_until" | "transfers"> & {
  readonly fromToken: number
  readonly reservedBytes: number
}

/**
 * Updates the upload only as it was read. The new token becomes part of the blob's key, so a stale transfer cannot overwrite
 * the file of a later one.
 */
const beginTransfer = statement((given: Given<Transfer>) =>
  query
    .updateTable("uploads")
    .set({ ...assign(given, "token", "claimed_until", "transfers"), reserved_bytes: given.reservedBytes })
    .where("id", "=", given.id)
    .where("token", "=", given.fromToken)
    .where("blob_key", "is", null)
    .where("erased", "=", 0),
)

const claimUpload = (tx: Transaction, transfer: NewTransfer): ClaimUploadOutcome => {
  const upload = findUpload(tx, transfer.uploadId)
  const stored = upload !== undefined && (transfer.capBytes ?? 0) > 0 ? storedBytes(tx, upload.projectId) : 0
  const kept = upload === undefined ? nothingKept : keptBytes(tx, upload.projectId, upload.mode)
  const outcome = judgeTransfer(transfer, upload, stored, kept, tx.now)
  if (outcome._tag !== "Claimed") return outcome
  const { id, claimedUntil, token, transfers } = outcome.upload
  const reservedBytes = transfer.storage?.bytes ?? 0
  if (tx.run(beginTransfer, { id, fromToken: token - 1, token, claimedUntil, transfers, reservedBytes }) !== 1)
    throw new TypeError(`${id} changed while its transfer began`)
  return outcome
}

/**
 * The upload while the transfer with this token may still commit. As with jobs, an expired lease alone does not end a transfer;
 * a later transfer or an end of this one does.
 */
const transferOf = ({ id, token }: Given<Values<"uploads", "id" | "token">>) =>
  query
    .updateTable("uploads")
    .where("id", "=", id)
    .where("token", "=", token)
    .where("claimed_until", "is not", null)
    .where("erased", "=", 0)

const moveLease = statement((given: Given<Values<"uploads", "id" | "token" | "claimed_until">>) =>
  transferOf(given).set(assign(given, "claimed_until")),
)

const endTransfer = statement((given: Given<Values<"uploads", "id" | "token">>) =>
  transferOf(given).set({ claimed_until: null }),
)

/** Stores the file and ends the transfer in one update. */
const receive = statement((given: Given<Values<"uploads", "id" | "token" | "blob_key" | "bytes" | "sha256">>) =>
  transferOf(given).set({ ...assign(given, "blob_key", "bytes", "sha256"), claimed_until: null }),
)

const extendUpload = (
  tx: Transaction,
  { leaseDurationMs, token, uploadId: id }: TransferRef & { readonly leaseDurationMs: number },
): FencedOutcome =>
  tx.run(moveLease, { id, token, claimedUntil: tx.now + Math.ceil(leaseDurationMs) }) === 1 ? "Written" : "LeaseLost"

const completeUpload = (
  tx: Transaction,
  { capBytes = 0, file, token, uploadId: id }: Parameters<UploadStore["Service"]["completeUpload"]>[0],
): FencedOutcome | "UploadsFull" => {
  const { blobKey, bytes, sha256 } = file
  const held = capBytes > 0 ? findUpload(tx, id) : undefined
  if (held !== undefined && holdsTransfer(held, token) && exceedsCap(storedBytes(tx, held.projectId), bytes, capBytes))
    return "UploadsFull"
  if (tx.run(receive, { id, token, blobKey, bytes, sha256 }) === 1) return "Written"
  const upload = findUpload(tx, id)
  return upload !== undefined && isRepeatedReceipt(upload, blobKey) ? "Written" : "LeaseLost"
}

/** The transfer counts against the limit of transfers, but another may begin. */
const releaseUpload = (tx: Transaction, { token, uploadId: id }: TransferRef): FencedOutcome => {
  if (tx.run(endTransfer, { id, token }) === 1) return "Written"
  const upload = findUpload(tx, id)
  return upload !== undefined && isRepeatedGivingUp(upload, token) ? "Written" : "LeaseLost"
}

// Pruning

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
    createUploads: (uploads) => db.write("UploadStore.createUploads", (tx) => createUploads(tx, uploads)),
    findUpload: (uploadId) => db.read("UploadStore.findUpload", (tx) => findUpload(tx, uploadId)),
    claimUpload: (request) => db.write("UploadStore.claimUpload", (tx) => claimUpload(tx, request)),
    extendUpload: (transfer) => db.write("UploadStore.extendUpload", (tx) => extendUpload(tx, transfer)),
    completeUpload: (transfer) => db.write("UploadStore.completeUpload", (tx) => completeUpload(tx, transfer)),
    releaseUpload: (transfer) => db.write("UploadStore.releaseUpload", (tx) => releaseUpload(tx, transfer)),
    keptBytes: (projectId, mode) => db.read("UploadStore.keptBytes", (tx) => keptBytes(tx, projectId, mode)),
    expireUploads: (limit) =>
      prunedInParts(limit, (part) => db.write("UploadStore.expireUploads", (tx) => expireUploads(tx, part))),
    deleteUploads: (olderThanMs, limit) =>
      countedInParts(limit, (part) =>
        db.write("UploadStore.deleteUploads", (tx) => deleteUploads(tx, olderThanMs, part)),
      ),
    findUploadOrphans: (blobs) => db.read("UploadStore.findUploadOrphans", (tx) => findUploadOrphans(tx, blobs)),
  })
