import { Context, type Effect } from "effect"
import type {
  AudioFormat,
  JobMode,
  KeyId,
  ProjectId,
  StoreUnavailable,
  TransferRefusal,
  Upload,
  UploadedFile,
  UploadId,
} from "../domain/index.ts"
import type { FencedOutcome } from "./JobClaim.ts"
import type { Orphan, PruneResult } from "./JobStore.ts"

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
}

export type ClaimUploadOutcome =
  | { readonly _tag: "Claimed"; readonly upload: Upload; readonly token: number }
  | { readonly _tag: "Refused"; readonly reason: TransferRefusal }
  | { readonly _tag: "NotFound" }

/** Names a running transfer. */
export interface TransferRef {
  readonly uploadId: UploadId
  readonly token: number
}

/** The records of uploads. Verbs are atomic steps, as those of `JobStore`; the end of a transfer may be repeated like that of a claim. */
export class UploadStore extends Context.Service<
  UploadStore,
  {
    readonly createUploads: (
      uploads: ReadonlyArray<NewUpload>,
    ) => Effect.Effect<ReadonlyArray<Upload>, StoreUnavailable>
    /** By id alone: the signed URL is the authorization. */
    readonly findUpload: (uploadId: UploadId) => Effect.Effect<Upload | undefined, StoreUnavailable>
    /**
     * Begins a transfer: at most one runs at a time, at most `maxTransfers` ever. Refused, it says why, in the order of
     * completed, running, used up; with 0 transfers allowed it begins none and says only that.
     */
    readonly claimUpload: (request: {
      readonly uploadId: UploadId
      readonly leaseDurationMs: number
      readonly maxTransfers: number
    }) => Effect.Effect<ClaimUploadOutcome, StoreUnavailable>
    readonly extendUpload: (
      transfer: TransferRef & { readonly leaseDurationMs: number },
    ) => Effect.Effect<FencedOutcome, StoreUnavailable>
    /** Makes the file the upload's. Its blob is durable already. A repeat is one that brings the same blob. */
    readonly completeUpload: (
      transfer: TransferRef & { readonly file: UploadedFile },
    ) => Effect.Effect<FencedOutcome, StoreUnavailable>
    /**
     * Ends a transfer that came to nothing, so that another may begin. Of one that was completed it says `LeaseLost`:
     * `Written` means that its blob is nobody's. A repeat is recognized until the next transfer.
     */
    readonly releaseUpload: (transfer: TransferRef) => Effect.Effect<FencedOutcome, StoreUnavailable>
    /** Erases uploads no job came for in time, up to `limit`. */
    readonly expireUploads: (limit: number) => Effect.Effect<PruneResult, StoreUnavailable>
    /** Removes records of erased uploads made at least `olderThanMs` ago that no job refers to. */
    readonly deleteUploads: (olderThanMs: number, limit: number) => Effect.Effect<number, StoreUnavailable>
    /** Of these blobs of uploads, in their order, those that no transfer can still commit and no row names. */
    readonly findUploadOrphans: (
      blobs: ReadonlyArray<{ readonly blobKey: string; readonly uploadId: UploadId; readonly token: number }>,
    ) => Effect.Effect<ReadonlyArray<Orphan>, StoreUnavailable>
  }
>()("@kiln/core/ports/UploadStore") {}
