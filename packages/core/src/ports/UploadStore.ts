import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { JobMode, ProjectId, StoreUnavailable, Upload, UploadId } from "../domain/index.ts"
import type {
  ClaimUploadOutcome,
  CreateUploadOutcome,
  KeptBytes,
  NewTransfer,
  NewUpload,
  UploadedFile,
} from "../domain/Upload.ts"
import type { FencedOutcome } from "./JobClaim.ts"
import type { Orphan, PruneResult } from "./JobStore.ts"

/** Identifies a running transfer. */
export interface TransferRef {
  readonly uploadId: UploadId
  readonly token: number
}

/**
 * The records of uploads. Verbs are atomic steps, as in `JobStore`. The end of a transfer can be repeated like the end of a
 * claim.
 */
export class UploadStore extends Context.Service<
  UploadStore,
  {
    /** Announces uploads. Earlier items of a batch count against the caps of later ones. */
    readonly createUploads: (
      uploads: ReadonlyArray<NewUpload>,
    ) => Effect.Effect<ReadonlyArray<CreateUploadOutcome>, StoreUnavailable>
    /** Returns an upload by its id alone: the signed URL is the authorization. */
    readonly findUpload: (uploadId: UploadId) => Effect.Effect<Upload | undefined, StoreUnavailable>
    /**
     * Begins a transfer. At most one runs at a time, and at most `maxTransfers` in total. A refusal states the first reason of:
     * completed, running, used up, cap of waiting bytes, cap of kept bytes.
     */
    readonly claimUpload: (transfer: NewTransfer) => Effect.Effect<ClaimUploadOutcome, StoreUnavailable>
    readonly extendUpload: (
      transfer: TransferRef & { readonly leaseDurationMs: number },
    ) => Effect.Effect<FencedOutcome, StoreUnavailable>
    /**
     * Assigns the file to the upload. Its blob is already durable. A call with the same blob counts as a repeat. `UploadsFull`:
     * the file would exceed the cap, and nothing has changed.
     */
    readonly completeUpload: (
      transfer: TransferRef & {
        readonly file: UploadedFile
        /** Maximum bytes of the project's stored files that wait for jobs, including this one; 0, the default, means no cap. */
        readonly capBytes?: number | undefined
      },
    ) => Effect.Effect<FencedOutcome | "UploadsFull", StoreUnavailable>
    /**
     * Ends a failed transfer, so that another may begin. `Written` means that no record uses its blob; a completed transfer gets
     * `LeaseLost`. A repeat is recognized until the next transfer.
     */
    readonly releaseUpload: (transfer: TransferRef) => Effect.Effect<FencedOutcome, StoreUnavailable>
    /** Returns the bytes that a project keeps in a mode. Takes constant time: the store counts them as they come and go. */
    readonly keptBytes: (projectId: ProjectId, mode: JobMode) => Effect.Effect<KeptBytes, StoreUnavailable>
    /** Erases up to `limit` uploads that no job used in time. */
    readonly expireUploads: (limit: number) => Effect.Effect<PruneResult, StoreUnavailable>
    /** Removes records of erased uploads that were created at least `olderThanMs` ago and that no job refers to. */
    readonly deleteUploads: (olderThanMs: number, limit: number) => Effect.Effect<number, StoreUnavailable>
    /** Returns, in their order, the given upload blobs that no record names and no transfer can still commit. */
    readonly findUploadOrphans: (
      blobs: ReadonlyArray<{ readonly blobKey: string; readonly uploadId: UploadId; readonly token: number }>,
    ) => Effect.Effect<ReadonlyArray<Orphan>, StoreUnavailable>
  }
>()("@kiln/core/ports/UploadStore") {}
