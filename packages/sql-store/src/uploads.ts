import type { ProjectId, Upload, UploadId } from "@kiln/core/domain"
import {
  exceedsCap,
  holdsTransfer,
  isRepeatedGivingUp,
  isRepeatedReceipt,
  judgeTransfer,
  judgeUpload,
} from "@kiln/core/rules"
import type {
  ClaimUploadOutcome,
  CreateUploadOutcome,
  FencedOutcome,
  NewTransfer,
  NewUpload,
  TransferRef,
  UploadStore,
} from "@kiln/core/ports"
import { assign, type Flag, select, type Values } from "./columns.ts"
import { each, type Given, type Program, query, type Sql, statement, type Transactions } from "./Sql.ts"
import { countWaiting, findUploadOrphans, keptBytes, nothingKept, storedBytes } from "./sweeps.ts"

// Reading

const announcedNames = ["id", "project_id", "key_id", "mode", "format", "declared_seconds", "created_at"] as const
const newNames = [...announcedNames, "expires_at", "usable_until"] as const

/** The unique `upload_id` of a job tells which job consumed the upload. */
export const selectUploads = query
  .selectFrom("uploads")
  .leftJoin("jobs", "jobs.upload_id", "uploads.id")
  .select(
    select("uploads", ...newNames, "token", "claimed_until", "transfers", "blob_key", "bytes", "sha256", "erased"),
  )
  .select("jobs.id as jobId")

export interface UploadRow extends Omit<Upload, "file" | "erased"> {
  readonly blobKey: string | null
  readonly bytes: number | null
  readonly sha256: string | null
  readonly erased: Flag
}

type Id = Values<"uploads", "id">

const uploadById = statement((given: Given<Id>) => selectUploads.where("uploads.id", "=", given.id))

const lockedById = statement((given: Given<Id>) =>
  query.selectFrom("uploads").select("uploads.id").where("uploads.id", "=", given.id).forUpdate("uploads"),
)

export const uploadOf = ({ blobKey, bytes, erased, sha256, ...upload }: UploadRow): Upload => {
  const file = blobKey === null || bytes === null || sha256 === null ? null : { blobKey, bytes, sha256 }
  return { ...upload, file, erased: Boolean(erased) }
}

/** By id alone, because the signed URL is the authorization. */
export function* findUpload(tx: Sql, id: UploadId): Program<Upload | undefined> {
  const row = yield* tx.get(uploadById, { id })
  return row && uploadOf(row)
}

/** Locks the upload until the transaction ends, and then reads it, so it is what was committed last. */
function* lockUpload(tx: Sql, id: UploadId): Program<Upload | undefined> {
  const locked = tx.get(lockedById, { id })
  const row = tx.get(uploadById, { id })
  yield* locked
  const upload = yield* row
  return upload && uploadOf(upload)
}

// Transfers

type NewRow = (typeof newNames)[number]

/** The sweep looks at an upload once no job may use it any more. */
const insertUpload = statement((given: Given<Values<"uploads", NewRow>>) =>
  query.insertInto("uploads").values({
    ...assign(given, ...newNames),
    token: 0,
    transfers: 0,
    sweep_at: given.usableUntil,
  }),
)

/** The waiting uploads of projects with a cap, in the order of the ids, so that no two transactions wait for each other. */
function* countAllWaiting(tx: Sql, items: ReadonlyArray<NewUpload>): Program<Map<ProjectId, number>> {
  const waiting = new Map<ProjectId, number>()
  for (const { cap, projectId } of items.toSorted((one, other) => (one.projectId < other.projectId ? -1 : 1)))
    if (cap !== undefined && !waiting.has(projectId))
      waiting.set(projectId, yield* countWaiting(tx, projectId, cap.maxTransfers))
  return waiting
}

function* createUploads(tx: Sql, items: ReadonlyArray<NewUpload>): Program<ReadonlyArray<CreateUploadOutcome>> {
  const now = yield* tx.now()
  const waiting = yield* countAllWaiting(tx, items)
  const outcomes = items.map((item) => {
    const count = waiting.get(item.projectId) ?? 0
    const outcome = judgeUpload(item, count, now)
    if (outcome !== "UploadsFull") waiting.set(item.projectId, count + 1)
    return outcome
  })
  yield* each(
    outcomes.flatMap((outcome) => (outcome === "UploadsFull" ? [] : [tx.run(insertUpload, inserted(outcome))])),
  )
  return outcomes
}

const inserted = (upload: Upload): Values<"uploads", NewRow> => {
  const { createdAt, declaredSeconds, expiresAt, format, id, keyId, mode, projectId, usableUntil } = upload
  return { id, projectId, keyId, mode, format, declaredSeconds, createdAt, expiresAt, usableUntil }
}

type Transfer = Values<"uploads", "id" | "token" | "claimed_until" | "transfers" | "reserved_bytes"> & {
  readonly fromToken: number
}

/**
 * Updates the upload only as it was read. The new token becomes part of the blob's key, so a stale transfer cannot overwrite
 * the file of a later one.
 */
const beginTransfer = statement((given: Given<Transfer>) =>
  query
    .updateTable("uploads")
    .set(assign(given, "token", "claimed_until", "transfers", "reserved_bytes"))
    .where("id", "=", given.id)
    .where("token", "=", given.fromToken)
    .where("blob_key", "is", null)
    .where("erased", "=", false),
)

/** The upload is locked before its project, so that no two transactions wait for each other. */
function* claimUpload(tx: Sql, transfer: NewTransfer): Program<ClaimUploadOutcome> {
  const upload = yield* lockUpload(tx, transfer.uploadId)
  const { bytes: reservedBytes = 0, capBytes: storageCap = 0 } = transfer.storage ?? {}
  const stored = upload === undefined ? 0 : yield* storedBytes(tx, upload.projectId, transfer.capBytes)
  let kept = nothingKept
  if (upload !== undefined && storageCap > 0) {
    yield* tx.lock(`uploads ${upload.projectId}`)
    kept = yield* keptBytes(tx, upload.projectId, upload.mode)
  }
  const outcome = judgeTransfer(transfer, upload, stored, kept, yield* tx.now())
  if (outcome._tag !== "Claimed") return outcome
  const { id, claimedUntil, token, transfers } = outcome.upload
  const begun = { id, fromToken: token - 1, token, claimedUntil, transfers, reservedBytes }
  if ((yield* tx.run(beginTransfer, begun)) !== 1) throw new TypeError(`${id} changed while its transfer began`)
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
    .where("erased", "=", false)

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

function* extendUpload(
  tx: Sql,
  { leaseDurationMs, token, uploadId: id }: TransferRef & { readonly leaseDurationMs: number },
): Program<FencedOutcome> {
  const claimedUntil = (yield* tx.now()) + Math.ceil(leaseDurationMs)
  return (yield* tx.run(moveLease, { id, token, claimedUntil })) === 1 ? "Written" : "LeaseLost"
}

function* completeUpload(
  tx: Sql,
  { capBytes = 0, file, token, uploadId: id }: Parameters<UploadStore["Service"]["completeUpload"]>[0],
): Program<FencedOutcome | "UploadsFull"> {
  const { blobKey, bytes, sha256 } = file
  const held = capBytes > 0 ? yield* lockUpload(tx, id) : undefined
  if (
    held !== undefined &&
    holdsTransfer(held, token) &&
    exceedsCap(yield* storedBytes(tx, held.projectId, capBytes), bytes, capBytes)
  )
    return "UploadsFull"
  if ((yield* tx.run(receive, { id, token, blobKey, bytes, sha256 })) === 1) return "Written"
  const upload = yield* findUpload(tx, id)
  return upload !== undefined && isRepeatedReceipt(upload, blobKey) ? "Written" : "LeaseLost"
}

/** The transfer counts against the limit of transfers, but another may begin. */
function* releaseUpload(tx: Sql, { token, uploadId: id }: TransferRef): Program<FencedOutcome> {
  if ((yield* tx.run(endTransfer, { id, token })) === 1) return "Written"
  const upload = yield* findUpload(tx, id)
  return upload !== undefined && isRepeatedGivingUp(upload, token) ? "Written" : "LeaseLost"
}

/** The verbs of uploads and their transfers. The sweeps are the adapter's. Transfers extend their leases in `heartbeats`. */
export const transferVerbs = (
  db: Transactions,
  heartbeats: Transactions = db,
): Omit<UploadStore["Service"], "expireUploads" | "deleteUploads"> => ({
  createUploads: (uploads) => db.write("UploadStore.createUploads", (tx) => createUploads(tx, uploads)),
  findUpload: (uploadId) => db.read("UploadStore.findUpload", (tx) => findUpload(tx, uploadId)),
  claimUpload: (request) => db.write("UploadStore.claimUpload", (tx) => claimUpload(tx, request)),
  extendUpload: (transfer) => heartbeats.write("UploadStore.extendUpload", (tx) => extendUpload(tx, transfer)),
  completeUpload: (transfer) => db.write("UploadStore.completeUpload", (tx) => completeUpload(tx, transfer)),
  releaseUpload: (transfer) => db.write("UploadStore.releaseUpload", (tx) => releaseUpload(tx, transfer)),
  findUploadOrphans: (blobs) => db.read("UploadStore.findUploadOrphans", (tx) => findUploadOrphans(tx, blobs)),
  keptBytes: (projectId, mode) => db.read("UploadStore.keptBytes", (tx) => keptBytes(tx, projectId, mode)),
})
