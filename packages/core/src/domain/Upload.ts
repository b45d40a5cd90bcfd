import type { JobMode } from "./Access.ts"
import type { AudioFormat } from "./AudioFormat.ts"
import type { JobId, KeyId, ProjectId, UploadId } from "./Ids.ts"

/** The file of an upload, as received. */
export interface UploadedFile {
  readonly blobKey: string
  readonly bytes: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** An announced file and its state. All times are unix milliseconds in store time. */
export interface Upload {
  readonly id: UploadId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly mode: JobMode
  readonly format: AudioFormat
  readonly declaredSeconds: number
  readonly createdAt: number
  /** When transfers can no longer begin. */ readonly expiresAt: number
  /** When the file expires if no job has used it. */
  readonly usableUntil: number
  /** Fencing token of the latest transfer. It is part of the blob key, so a stale transfer never overwrites the winner's blob. */
  readonly token: number
  /** End of the running transfer's lease; `null` if no transfer is running. */
  readonly claimedUntil: number | null
  /** Transfers begun. */
  readonly transfers: number
  /** `null` until a transfer succeeded, and again once the data is gone. */
  readonly file: UploadedFile | null
  /** The one job that consumes this upload. */
  readonly jobId: JobId | null
  /** Whether its data was deleted, with its job's or by age. */
  readonly erased: boolean
}

/**
 * Returns when transfers can no longer begin, in Unix milliseconds, rounded down to a whole second: the signed URL and
 * `expires_at` have that precision, and all three must agree.
 */
export const transferEnd = (now: number, transferWindowMs: number): number =>
  Math.floor((now + transferWindowMs) / 1_000) * 1_000

/** Why a transfer may not begin. */
export type TransferRefusal = "already_completed" | "in_progress" | "expired"

/** Returns why a transfer may not begin now. The contract fixes the order: completed, running, used up. */
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

/** The maximum number and total bytes of one project's uploads that wait for jobs. 0 means no cap. */
export interface UploadCap {
  /** Uploads, announced or stored. */
  readonly uploads: number
  /** Bytes of stored files. */
  readonly bytes: number
}

/** The maximum number of bytes that a project may keep, uploads and results together, by mode. 0 means no cap. */
export type StorageCap = Readonly<Record<JobMode, number>>

/** Why a job may not use an upload. */
export type UploadRefusal = "not_found" | "already_used" | "expired" | "not_ready"

/** Returns why a job may not use the upload now. Ownership has already been checked. */
export const uploadRefusal = (upload: Upload, now: number, maxTransfers: number): UploadRefusal | undefined => {
  if (upload.jobId !== null) return "already_used"
  if (upload.erased || now >= upload.usableUntil) return "expired"
  if (upload.file !== null) return undefined
  const running = upload.claimedUntil !== null && upload.claimedUntil > now
  // No transfer can begin any more, so the file will never arrive.
  if (!running && (now >= upload.expiresAt || upload.transfers >= maxTransfers)) return "expired"
  return "not_ready"
}

/**
 * Returns whether an upload waits for a job: it is announced or stored, no job has used it, and one may use it now or once its
 * file has arrived.
 */
export const isWaiting = (upload: Upload, now: number, maxTransfers: number): boolean => {
  const refusal = uploadRefusal(upload, now, maxTransfers)
  return refusal === undefined || refusal === "not_ready"
}

/**
 * Returns whether a transfer with this token may still commit: no other transfer took over, and it was not ended. As with jobs,
 * an ended lease alone loses nothing; only a takeover does.
 */
export const holdsTransfer = (upload: Upload, token: number): boolean =>
  !upload.erased && upload.claimedUntil !== null && upload.token === token
