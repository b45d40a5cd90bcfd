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
const transferEnd = (now: number, transferWindowMs: number): number =>
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

/** An upload to be announced. */
export interface NewUpload extends Pick<Upload, "id" | "projectId" | "keyId" | "mode" | "format" | "declaredSeconds"> {
  /** Milliseconds during which a transfer may begin. */
  readonly transferWindowMs: number
  /** Milliseconds during which a job may use the file. */
  readonly usableForMs: number
  /** Refuses the upload if too many uploads of its project wait for jobs; no cap by default. */
  readonly cap?: {
    /** Maximum number, including this one; at least 1. */
    readonly uploads: number
    /** Number of transfers an upload allows; an upload that has used them up no longer counts as waiting. */
    readonly maxTransfers: number
  }
}

export type CreateUploadOutcome = Upload | "UploadsFull"

/** Decides about a new upload, given that `waiting` uploads of its project wait for jobs (`isWaiting`). */
export const judgeUpload = (upload: NewUpload, waiting: number, now: number): CreateUploadOutcome =>
  upload.cap !== undefined && waiting >= upload.cap.uploads
    ? "UploadsFull"
    : {
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
      }

/** A transfer to begin. */
export interface NewTransfer {
  readonly uploadId: UploadId
  readonly leaseDurationMs: number
  /** Number of transfers the upload allows; with 0, none can begin. */
  readonly maxTransfers: number
  /** Length that the sender declared; 1 by default, because empty files are refused. */
  readonly bytes?: number | undefined
  /** Maximum bytes of the project's stored files that wait for jobs, including this one; 0, the default, means no cap. */
  readonly capBytes?: number | undefined
  /** Refuses the transfer if the project's kept bytes would exceed a cap; no cap by default. */
  readonly storage?: StorageClaim | undefined
}

/** The bytes that a transfer reserves of what its project may keep. */
export interface StorageClaim {
  /** Maximum bytes that the project keeps in this mode; 0 for no cap. */
  readonly capBytes: number
  /** Bytes that the transfer may store at most. */
  readonly bytes: number
}

/** The bytes that a project keeps in one mode. */
export interface KeptBytes {
  /** Files of uploads, and what transfers in progress reserve. */
  readonly uploads: number
  /** Files of finished jobs. */
  readonly files: number
}

export type ClaimUploadOutcome =
  | { readonly _tag: "Claimed"; readonly upload: Upload; readonly token: number }
  /**
   * `uploads_full`: this file would exceed the cap of the project's bytes that wait for jobs; `storage_full`: that of all bytes that the
   * project keeps.
   */
  | { readonly _tag: "Refused"; readonly reason: TransferRefusal | "uploads_full" | "storage_full" }
  | { readonly _tag: "NotFound" }

/**
 * Decides about a new transfer, given that `storedBytes` of the project's files wait for jobs, and what it keeps in all. The first failing check decides:
 * the upload exists, a transfer may begin (`transferRefusal`), cap of waiting bytes, cap of kept bytes. `Claimed` carries the upload as the store must write
 * it. Its new token is part of the blob key, so a stale transfer never overwrites the winner's file.
 */
export const judgeTransfer = (
  transfer: NewTransfer,
  upload: Upload | undefined,
  storedBytes: number,
  kept: KeptBytes,
  now: number,
): ClaimUploadOutcome => {
  if (upload === undefined) return { _tag: "NotFound" }
  const reason = transferRefusal(upload, now, transfer.maxTransfers)
  if (reason !== undefined) return { _tag: "Refused", reason }
  if (exceedsCap(storedBytes, transfer.bytes ?? 1, transfer.capBytes))
    return { _tag: "Refused", reason: "uploads_full" }
  if (exceedsCap(kept.uploads + kept.files, transfer.storage?.bytes ?? 0, transfer.storage?.capBytes))
    return { _tag: "Refused", reason: "storage_full" }
  const token = upload.token + 1
  const claimedUntil = now + Math.ceil(transfer.leaseDurationMs)
  return { _tag: "Claimed", token, upload: { ...upload, token, claimedUntil, transfers: upload.transfers + 1 } }
}

/** Returns whether this many more bytes of a project's files would exceed the cap. A cap of 0, the default, allows any number. */
export const exceedsCap = (storedBytes: number, bytes: number, capBytes = 0): boolean =>
  capBytes > 0 && storedBytes + bytes > capBytes
