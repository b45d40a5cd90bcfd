import type { JobMode } from "./Access.ts"
import type { AudioFormat } from "./AudioFormat.ts"
import type { JobId, KeyId, ProjectId, UploadId } from "./Ids.ts"

/** What arrived. */
export interface UploadedFile {
  readonly blobKey: string
  readonly bytes: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** An announced file and what became of it. All times are unix milliseconds in store time. */
export interface Upload {
  readonly id: UploadId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly mode: JobMode
  readonly format: AudioFormat
  readonly declaredSeconds: number
  readonly createdAt: number
  /** Until when a transfer may begin. */
  readonly expiresAt: number
  /** Until when the file waits for a job. */
  readonly usableUntil: number
  /** Fencing token of the latest transfer; part of its blob key, so a loser never overwrites a winner. */
  readonly token: number
  /** Lease end of the running transfer; `null` when none runs. */
  readonly claimedUntil: number | null
  /** Transfers begun. */
  readonly transfers: number
  /** `null` until a transfer succeeded, and again once the data is gone. */
  readonly file: UploadedFile | null
  /** The one job that consumes this upload. */
  readonly jobId: JobId | null
  /** Its data was deleted, with its job's or by age. */
  readonly erased: boolean
}

/**
 * Until when a transfer may begin: a whole second, rounded down, because that is what the signed URL and `expires_at` can
 * say, and all three must say the same.
 */
export const transferEnd = (now: number, transferWindowMs: number): number =>
  Math.floor((now + transferWindowMs) / 1_000) * 1_000

/** Why a transfer may not begin. */
export type TransferRefusal = "already_completed" | "in_progress" | "expired"

/** Whether a transfer may begin now. The order is the contract's: completed, running, used up. */
export const transferRefusal = (upload: Upload, now: number, maxTransfers: number): TransferRefusal | undefined =>
  upload.file !== null || upload.jobId !== null
    ? "already_completed"
    : upload.erased
      ? "expired"
      : upload.claimedUntil !== null && upload.claimedUntil > now
        ? "in_progress"
        : upload.transfers >= maxTransfers
          ? "expired"
          : undefined

/** How much of one project's uploads may wait for jobs. In either part, 0 is no cap. */
export interface UploadCap {
  /** Uploads, announced or stored. */
  readonly uploads: number
  /** Bytes of stored files. */
  readonly bytes: number
}

/** Why a job may not use an upload. */
export type UploadRefusal = "not_found" | "already_used" | "expired" | "not_ready"

/** Whether a job may consume the upload now. The caller has already been checked to own it. */
export const uploadRefusal = (upload: Upload, now: number, maxTransfers: number): UploadRefusal | undefined => {
  if (upload.jobId !== null) return "already_used"
  if (upload.erased || now >= upload.usableUntil) return "expired"
  if (upload.file !== null) return undefined
  const running = upload.claimedUntil !== null && upload.claimedUntil > now
  // Nothing can arrive any more: waiting for it would be for ever.
  if (!running && (now >= upload.expiresAt || upload.transfers >= maxTransfers)) return "expired"
  return "not_ready"
}

/** Whether an upload waits for a job: announced or stored, used by none, and a job may use it now or once its file has arrived. */
export const isWaiting = (upload: Upload, now: number, maxTransfers: number): boolean => {
  const refusal = uploadRefusal(upload, now, maxTransfers)
  return refusal === undefined || refusal === "not_ready"
}

/**
 * Whether a transfer begun with this token may still commit: nobody took over or ended it. As with
 * jobs, a lapsed lease alone loses nothing; what decides is who came in between.
 */
export const holdsTransfer = (upload: Upload, token: number): boolean =>
  !upload.erased && upload.claimedUntil !== null && upload.token === token
