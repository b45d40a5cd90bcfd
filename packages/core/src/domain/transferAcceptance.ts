import type { JobMode } from "./Access.ts"
import type { AudioFormat } from "./AudioFormat.ts"
import type { KeyId, ProjectId, UploadId } from "./Ids.ts"
import { transferEnd, type TransferRefusal, transferRefusal, type Upload } from "./Upload.ts"

/** An upload to be announced. */
export interface NewUpload {
  readonly id: UploadId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly mode: JobMode
  readonly format: AudioFormat
  readonly declaredSeconds: number
  /** Milliseconds during which a transfer may begin. */
  readonly transferWindowMs: number
  /** Milliseconds during which a job may use the file. */
  readonly usableForMs: number
  /** Refuses the upload when as many of its project wait for jobs; no cap by default. */
  readonly cap?: {
    /** This one included; at least 1. */
    readonly uploads: number
    /** Transfers an upload allows: one that has used them up waits no more. */
    readonly maxTransfers: number
  }
}

export type CreateUploadOutcome = Upload | "UploadsFull"

/** Decides about a new upload, where `waiting` uploads of its project wait for jobs (`isWaiting`). */
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
  /** Transfers the upload allows; with 0 none begins. */
  readonly maxTransfers: number
  /** How long the file will be, as far as the sender says: 1 by default, since no file is empty. */
  readonly bytes?: number | undefined
  /** Bytes of the project's stored files that may wait for jobs, this one included; 0, the default, is no cap. */
  readonly capBytes?: number | undefined
}

export type ClaimUploadOutcome =
  | { readonly _tag: "Claimed"; readonly upload: Upload; readonly token: number }
  /** `uploads_full`: with this file, more bytes of the project's would wait for jobs than may. */
  | { readonly _tag: "Refused"; readonly reason: TransferRefusal | "uploads_full" }
  | { readonly _tag: "NotFound" }

/**
 * Decides about a new transfer, where `storedBytes` of the project's files wait for jobs. The first check that fails decides:
 * the upload exists, a transfer may begin (`transferRefusal`), cap of bytes. `Claimed` carries the upload as the store must
 * write it: its new token is part of the blob's key, so that a transfer that loses never overwrites the winner's file.
 */
export const judgeTransfer = (
  transfer: NewTransfer,
  upload: Upload | undefined,
  storedBytes: number,
  now: number,
): ClaimUploadOutcome => {
  if (upload === undefined) return { _tag: "NotFound" }
  const reason = transferRefusal(upload, now, transfer.maxTransfers)
  if (reason !== undefined) return { _tag: "Refused", reason }
  if (exceedsCap(storedBytes, transfer.bytes ?? 1, transfer.capBytes))
    return { _tag: "Refused", reason: "uploads_full" }
  const token = upload.token + 1
  const claimedUntil = now + Math.ceil(transfer.leaseDurationMs)
  return { _tag: "Claimed", token, upload: { ...upload, token, claimedUntil, transfers: upload.transfers + 1 } }
}

/** Returns whether so many more bytes of a project's files would pass the cap. A cap of 0, the default, allows any number. */
export const exceedsCap = (storedBytes: number, bytes: number, capBytes = 0): boolean =>
  capBytes > 0 && storedBytes + bytes > capBytes
