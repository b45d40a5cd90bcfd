import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreUnavailable, Upload, UploadedFile, UploadId } from "../domain/index.ts"
import type { ClaimUploadOutcome, CreateUploadOutcome, NewTransfer, NewUpload } from "../domain/transferAcceptance.ts"
import type { FencedOutcome } from "./JobClaim.ts"
import type { Orphan, PruneResult } from "./JobStore.ts"

/** Names a running transfer. */
export interface TransferRef {
  readonly uploadId: UploadId
  readonly token: number
}

/** The records of uploads. Verbs are atomic steps, as those of `JobStore`; the end of a transfer may be repeated like that of a claim. */
export class UploadStore extends Context.Service<
  UploadStore,
  {
    /** Announces uploads. Items earlier in the batch count for the caps of later ones. */
    readonly createUploads: (
      uploads: ReadonlyArray<NewUpload>,
    ) => Effect.Effect<ReadonlyArray<CreateUploadOutcome>, StoreUnavailable>
    /** By id alone: the signed URL is the authorization. */
    readonly findUpload: (uploadId: UploadId) => Effect.Effect<Upload | undefined, StoreUnavailable>
    /**
     * Begins a transfer: at most one runs at a time, at most `maxTransfers` ever. Refused, it says why, in the order of
     * completed, running, used up, cap; with 0 transfers allowed it begins none and says only that.
     */
    readonly claimUpload: (transfer: NewTransfer) => Effect.Effect<ClaimUploadOutcome, StoreUnavailable>
    readonly extendUpload: (
      transfer: TransferRef & { readonly leaseDurationMs: number },
    ) => Effect.Effect<FencedOutcome, StoreUnavailable>
    /**
     * Makes the file the upload's. Its blob is durable already. A repeat is one that brings the same blob. `UploadsFull`: it would
     * pass the cap, and nothing has changed.
     */
    readonly completeUpload: (
      transfer: TransferRef & {
        readonly file: UploadedFile
        /** Bytes of the project's stored files that may wait for jobs, this one included; 0, the default, is no cap. */
        readonly capBytes?: number | undefined
      },
    ) => Effect.Effect<FencedOutcome | "UploadsFull", StoreUnavailable>
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
