import { type ProjectId, type Upload, uploadBlobPrefix } from "@kiln/core/domain"
import {
  exceedsCap,
  holdsTransfer,
  isRepeatedGivingUp,
  isRepeatedReceipt,
  isWaiting,
  judgeTransfer,
  judgeUpload,
  uploadOrphanReason,
} from "@kiln/core/rules"
import {
  type ClaimUploadOutcome,
  type CreateUploadOutcome,
  type FencedOutcome,
  type NewTransfer,
  type NewUpload,
  type PruneResult,
  type TransferRef,
  UploadStore,
} from "@kiln/core/ports"
import { keptBytes } from "./keptBytes.ts"
import { addPurges, keep, type MemoryState, putUpload, step } from "./MemoryState.ts"

/** The reference model of `UploadStore`. */
export const makeMemoryUploadStore = (state: MemoryState): UploadStore["Service"] =>
  UploadStore.of({
    createUploads: (uploads) => step((now) => uploads.map((upload) => createUpload(state, upload, now))),
    findUpload: (uploadId) => step(() => state.uploads.get(uploadId)),
    claimUpload: (transfer) => step((now) => claimUpload(state, transfer, now)),
    extendUpload: (transfer) => step((now) => write(state, transfer, { claimedUntil: now + transfer.leaseDurationMs })),
    completeUpload: (transfer) => step((now) => completeUpload(state, transfer, now)),
    releaseUpload: (transfer) =>
      step(() => end(state, transfer, {}, (upload) => isRepeatedGivingUp(upload, transfer.token))),
    keptBytes: (projectId, mode) => step(() => keptBytes(state, projectId, mode)),
    expireUploads: (limit) => step((now) => expireUploads(state, limit, now)),
    deleteUploads: (olderThanMs, limit) => step((now) => deleteUploads(state, olderThanMs, limit, now)),
    findUploadOrphans: (blobs) =>
      step(() =>
        blobs.flatMap(({ blobKey, token, uploadId }) => {
          const reason = uploadOrphanReason(factsOf(state.uploads.get(uploadId)), { blobKey, token })
          return reason === undefined ? [] : [{ blobKey, reason }]
        }),
      ),
  })

const factsOf = (upload: Upload | undefined): Parameters<typeof uploadOrphanReason>[0] =>
  upload && {
    erased: upload.erased,
    token: upload.token,
    inTransfer: upload.claimedUntil !== null,
    blobKey: upload.file?.blobKey ?? null,
  }

/** The uploads of a project that wait for jobs. */
const waitingOf = (state: MemoryState, projectId: ProjectId, now: number, maxTransfers: number) =>
  [...state.uploads.values()].filter((upload) => upload.projectId === projectId && isWaiting(upload, now, maxTransfers))

/** The bytes of a project's files that wait for jobs. */
const storedBytes = (state: MemoryState, projectId: ProjectId, now: number): number =>
  waitingOf(state, projectId, now, Infinity).reduce((sum, { file }) => sum + (file?.bytes ?? 0), 0)

const nothingKept = { uploads: 0, files: 0 }

const createUpload = (state: MemoryState, upload: NewUpload, now: number): CreateUploadOutcome => {
  if (state.uploads.has(upload.id)) throw new TypeError(`upload ${upload.id} already exists`)
  const { cap, projectId } = upload
  const waiting = cap === undefined ? 0 : waitingOf(state, projectId, now, cap.maxTransfers).length
  const outcome = judgeUpload(upload, waiting, now)
  return outcome === "UploadsFull" ? outcome : putUpload(state, outcome)
}

const claimUpload = (state: MemoryState, transfer: NewTransfer, now: number): ClaimUploadOutcome => {
  const upload = state.uploads.get(transfer.uploadId)
  const stored = upload && (transfer.capBytes ?? 0) > 0 ? storedBytes(state, upload.projectId, now) : 0
  const kept = upload === undefined ? nothingKept : keptBytes(state, upload.projectId, upload.mode)
  const outcome = judgeTransfer(transfer, upload, stored, kept, now)
  if (outcome._tag === "Claimed") {
    putUpload(state, outcome.upload)
    state.reservedBytes.set(transfer.uploadId, transfer.storage?.bytes ?? 0)
  }
  return outcome
}

const completeUpload = (
  state: MemoryState,
  transfer: Parameters<UploadStore["Service"]["completeUpload"]>[0],
  now: number,
): FencedOutcome | "UploadsFull" => {
  const { capBytes, file } = transfer
  const running = state.uploads.get(transfer.uploadId)
  if (running !== undefined && holdsTransfer(running, transfer.token))
    if (exceedsCap(storedBytes(state, running.projectId, now), file.bytes, capBytes)) return "UploadsFull"
  return end(state, transfer, { file: keep(file) }, (upload) => isRepeatedReceipt(upload, transfer.file.blobKey))
}

const write = (state: MemoryState, transfer: TransferRef, changes: Partial<Upload>): FencedOutcome => {
  const upload = state.uploads.get(transfer.uploadId)
  if (upload === undefined || !holdsTransfer(upload, transfer.token)) return "LeaseLost"
  putUpload(state, { ...upload, ...changes })
  return "Written"
}

/** Ends a transfer. A repeat returns `Written` without writing again. */
const end = (
  state: MemoryState,
  transfer: TransferRef,
  changes: Partial<Upload>,
  isRepeat: (upload: Upload) => boolean,
): FencedOutcome => {
  const upload = state.uploads.get(transfer.uploadId)
  if (upload !== undefined && isRepeat(upload)) return "Written"
  return write(state, transfer, { ...changes, claimedUntil: null })
}

const expireUploads = (state: MemoryState, limit: number, now: number): PruneResult => {
  const uploads = [...state.uploads.values()]
    .filter((upload) => upload.jobId === null && !upload.erased && upload.usableUntil <= now)
    .sort((a, b) => a.usableUntil - b.usableUntil)
    .slice(0, limit)
  for (const upload of uploads) putUpload(state, { ...upload, file: null, claimedUntil: null, erased: true })
  return {
    count: uploads.length,
    purges: addPurges(
      state,
      uploads.map((upload) => uploadBlobPrefix(upload.id)),
    ),
  }
}

const deleteUploads = (state: MemoryState, olderThanMs: number, limit: number, now: number): number => {
  const uploads = [...state.uploads.values()]
    .filter((upload) => upload.jobId === null && upload.erased && upload.createdAt <= now - olderThanMs)
    .sort((a, b) => a.createdAt - b.createdAt)
    .slice(0, limit)
  for (const upload of uploads) {
    state.uploads.delete(upload.id)
    state.reservedBytes.delete(upload.id)
  }
  return uploads.length
}
