import {
  isRepeatedGivingUp,
  isRepeatedReceipt,
  isWaiting,
  type ProjectId,
  transferEnd,
  transferRefusal,
  type Upload,
  uploadBlobPrefix,
  uploadOrphanReason,
} from "@kiln/core/domain"
import {
  type ClaimUploadOutcome,
  type CreateUploadOutcome,
  type FencedOutcome,
  type NewUpload,
  type PruneResult,
  type TransferRef,
  UploadStore,
} from "@kiln/core/ports"
import { addPurges, keep, type MemoryState, putUpload, step } from "./MemoryState.ts"

/** The reference model of `UploadStore`. */
export const makeMemoryUploadStore = (state: MemoryState): UploadStore["Service"] =>
  UploadStore.of({
    createUploads: (uploads) => step((now) => uploads.map((upload) => createUpload(state, upload, now))),
    findUpload: (uploadId) => step(() => state.uploads.get(uploadId)),
    claimUpload: (request) => step((now) => claimUpload(state, request, now)),
    extendUpload: (transfer) => step((now) => write(state, transfer, { claimedUntil: now + transfer.leaseDurationMs })),
    completeUpload: (transfer) => step((now) => completeUpload(state, transfer, now)),
    releaseUpload: (transfer) =>
      step(() => end(state, transfer, {}, (upload) => isRepeatedGivingUp(upload, transfer.token))),
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

/** Whether so many more bytes of a project's files would be more than may wait. */
const passesCap = (state: MemoryState, projectId: ProjectId, bytes: number, capBytes: number, now: number): boolean => {
  const waiting = waitingOf(state, projectId, now, Infinity)
  return capBytes > 0 && waiting.reduce((sum, { file }) => sum + (file?.bytes ?? 0), bytes) > capBytes
}

const createUpload = (state: MemoryState, upload: NewUpload, now: number): CreateUploadOutcome => {
  if (state.uploads.has(upload.id)) throw new TypeError(`upload ${upload.id} exists already`)
  const { cap } = upload
  if (cap !== undefined && waitingOf(state, upload.projectId, now, cap.maxTransfers).length >= cap.uploads)
    return "UploadsFull"
  return putUpload(state, {
    id: upload.id,
    projectId: upload.projectId,
    keyId: upload.keyId,
    mode: upload.mode,
    format: upload.format,
    declaredSeconds: upload.declaredSeconds,
    createdAt: now,
    expiresAt: transferEnd(now, upload.transferWindowMs),
    usableUntil: now + upload.usableForMs,
    token: 0,
    claimedUntil: null,
    transfers: 0,
    file: null,
    jobId: null,
    erased: false,
  })
}

const claimUpload = (
  state: MemoryState,
  request: Parameters<UploadStore["Service"]["claimUpload"]>[0],
  now: number,
): ClaimUploadOutcome => {
  const upload = state.uploads.get(request.uploadId)
  if (upload === undefined) return { _tag: "NotFound" }
  const reason = transferRefusal(upload, now, request.maxTransfers)
  if (reason !== undefined) return { _tag: "Refused", reason }
  if (passesCap(state, upload.projectId, request.bytes ?? 1, request.capBytes ?? 0, now))
    return { _tag: "Refused", reason: "uploads_full" }
  const token = upload.token + 1
  const claimedUntil = now + request.leaseDurationMs
  return {
    _tag: "Claimed",
    token,
    upload: putUpload(state, { ...upload, token, claimedUntil, transfers: upload.transfers + 1 }),
  }
}

/**
 * Whether a transfer begun with this token may still commit: nobody took over or ended it. As with
 * jobs, a lapsed lease alone loses nothing; what decides is who came in between.
 */
const holdsTransfer = (upload: Upload, token: number): boolean =>
  !upload.erased && upload.claimedUntil !== null && upload.token === token

const completeUpload = (
  state: MemoryState,
  transfer: Parameters<UploadStore["Service"]["completeUpload"]>[0],
  now: number,
): FencedOutcome | "UploadsFull" => {
  const { capBytes = 0, file } = transfer
  const running = state.uploads.get(transfer.uploadId)
  if (running !== undefined && holdsTransfer(running, transfer.token)) {
    if (passesCap(state, running.projectId, file.bytes, capBytes, now)) return "UploadsFull"
  }
  return end(state, transfer, { file: keep(file) }, (upload) => isRepeatedReceipt(upload, transfer.file.blobKey))
}

const write = (state: MemoryState, transfer: TransferRef, changes: Partial<Upload>): FencedOutcome => {
  const upload = state.uploads.get(transfer.uploadId)
  if (upload === undefined || !holdsTransfer(upload, transfer.token)) return "LeaseLost"
  putUpload(state, { ...upload, ...changes })
  return "Written"
}

/** Ends a transfer. What its first try has written already is not written again, and is written all the same. */
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
  for (const upload of uploads) state.uploads.delete(upload.id)
  return uploads.length
}
