import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type {
  FileId,
  Job,
  JobId,
  KeyId,
  OrphanReason,
  OutputFile,
  Principal,
  StoreUnavailable,
} from "../domain/index.ts"
import type {
  Checkpoint,
  ClaimRef,
  ClaimRequest,
  ClaimResult,
  Completion,
  Deferral,
  ExtendOutcome,
  Extension,
  Failure,
  FencedOutcome,
} from "./JobClaim.ts"
import type { CreateOutcome, NewJob } from "../domain/acceptance.ts"
import type { LedgerPage, LedgerPart } from "./Ledger.ts"

/** What became of one item of `cancelJobs`. */
export type CancelOutcome = "Canceled" | "AlreadyFinished" | "NotFound"

/** Erases on behalf of `principal`, who must own the job. */
export interface Erasure {
  readonly jobId: JobId
  readonly principal: Principal
}
export type EraseOutcome =
  /** Unreachable from now on. The blobs under these prefixes remain to be purged. */
  | { readonly _tag: "Erased"; readonly purges: ReadonlyArray<Purge> }
  /** Its data was gone already; purges that are still due come along. */
  | { readonly _tag: "AlreadyErased"; readonly purges: ReadonlyArray<Purge> }
  | { readonly _tag: "Unfinished" }
  | { readonly _tag: "NotFound" }

/** Blobs that nothing refers to any more and that are still to be removed. Kept until confirmed. */
export interface Purge {
  readonly blobPrefix: string
}

/** What the sweep did. */
export interface PruneResult {
  /** Records changed; fewer than the limit means there is nothing left for now. */
  readonly count: number
  readonly purges: ReadonlyArray<Purge>
}

/** A blob that no row names and no claim or transfer can still commit. */
export interface Orphan {
  readonly blobKey: string
  readonly reason: OrphanReason
}

/** What a store keeps about its blob store, and what is needed to judge it. */
export interface StoredLineage {
  /** Raised by each write; 0 before the first. */
  readonly version: number
  /** The text last written; `null` before the first. */
  readonly document: string | null
  /** Store time, Unix milliseconds. */
  readonly now: number
  /** The highest body of the ids of jobs and uploads; `null` where there is none. */
  readonly newestId: string | null
}

/** A file that is still reachable, with the job that owns it. */
export interface StoredFile extends OutputFile {
  readonly jobId: JobId
}

/** What survives this store, so that tests know what to ask of it. */
export interface StoreCapabilities {
  /** Written records survive the process. */
  readonly durable: boolean
  /** Several processes may use it at once. */
  readonly multiProcess: boolean
}

/**
 * The records of jobs. Every verb is one atomic step that owns its transaction: after a verb
 * returned, what it wrote survives whatever the store's capabilities say it survives. Verbs take
 * batches; each item has its own outcome, in the order of the items, and one refused item does not
 * disturb the others. Time is the store's own. `StoreUnavailable` says nothing about whether the
 * step happened, and every verb may be repeated: creations are keyed, claims are fenced, and an end
 * of a claim that came about already is recognized (`isRepeatedEnd`) and answered as it was the
 * first time. So one claim given twice to a verb, in one batch or in two, is written once and gets
 * the same answer twice.
 */
export class JobStore extends Context.Service<
  JobStore,
  {
    readonly capabilities: StoreCapabilities

    /** Accepts jobs: idempotency, what is retried, gate, upload, queue cap, insertion, in that order and in one transaction. */
    readonly createJobs: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable>

    /** The job, if this principal owns it. There is no way to read another's. */
    readonly findJobs: (
      items: ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>,
    ) => Effect.Effect<ReadonlyArray<Job | undefined>, StoreUnavailable>

    /** The job this key bound to an idempotency key. */
    readonly findByIdempotencyKey: (
      keyId: KeyId,
      idempotencyKey: string,
    ) => Effect.Effect<Job | undefined, StoreUnavailable>

    /** A file that is still reachable: its job is done and its data is kept. */
    readonly findFile: (fileId: FileId) => Effect.Effect<StoredFile | undefined, StoreUnavailable>

    /** Hands out claimable jobs, projects in turn, each project's by priority and then in order of arrival, within limits of concurrency. */
    readonly claimJobs: (request: ClaimRequest) => Effect.Effect<ClaimResult, StoreUnavailable>

    readonly extendLeases: (
      items: ReadonlyArray<Extension>,
    ) => Effect.Effect<ReadonlyArray<ExtendOutcome>, StoreUnavailable>
    readonly checkpointJobs: (
      items: ReadonlyArray<Checkpoint>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /** A repeat says `Written` for as long as the record is there, its data erased or not. */
    readonly completeJobs: (
      items: ReadonlyArray<Completion>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /** A repeat is one with the same error code. */
    readonly failJobs: (items: ReadonlyArray<Failure>) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /** Gives a job back for later. A repeat is recognized until the next claim. */
    readonly deferJobs: (
      items: ReadonlyArray<Deferral>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /** Gives a job back at once. After a deferral by the same claim it changes nothing: the job is given back already. */
    readonly releaseJobs: (
      items: ReadonlyArray<ClaimRef>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>

    /**
     * Fails unfinished jobs, whoever has them in hand (`canceled_by_operator`); for the operator, so of any project. A repeat
     * says `AlreadyFinished`.
     */
    readonly cancelJobs: (jobIds: ReadonlyArray<JobId>) => Effect.Effect<ReadonlyArray<CancelOutcome>, StoreUnavailable>
    /** Whether each claim still holds its job. Reads only: what says `true` may be lost a moment later. */
    readonly checkClaims: (items: ReadonlyArray<ClaimRef>) => Effect.Effect<ReadonlyArray<boolean>, StoreUnavailable>

    /** Fails up to `limit` jobs whose deadline has come; says which. */
    readonly expireJobs: (limit: number) => Effect.Effect<ReadonlyArray<JobId>, StoreUnavailable>

    /** Deletes what finished jobs retain: request, checkpoints, output, files, upload. */
    readonly eraseJobs: (items: ReadonlyArray<Erasure>) => Effect.Effect<ReadonlyArray<EraseOutcome>, StoreUnavailable>

    /** The same by age: jobs finished at least `olderThanMs` ago, up to `limit`. */
    readonly expireData: (olderThanMs: number, limit: number) => Effect.Effect<PruneResult, StoreUnavailable>

    /** Removes the records of jobs finished at least `olderThanMs` ago, with whatever they retain, up to `limit`. */
    readonly deleteJobs: (olderThanMs: number, limit: number) => Effect.Effect<PruneResult, StoreUnavailable>

    /**
     * What was charged, by `chargedAt`, then by `jobId`; a full page may be followed by another. Writes as well: it closes the
     * ledger up to `until`, and a charge that is committed later gets a time of `until` or later.
     */
    readonly listCharges: (page: LedgerPage) => Effect.Effect<LedgerPart, StoreUnavailable>

    /** Purges not confirmed yet, oldest first, up to `limit`. */
    readonly listPurges: (limit: number) => Effect.Effect<ReadonlyArray<Purge>, StoreUnavailable>
    /** Says that the blobs under these prefixes are verified gone. */
    readonly confirmPurges: (purges: ReadonlyArray<Purge>) => Effect.Effect<void, StoreUnavailable>

    /**
     * Of these blobs of jobs, in their order, those that no row names and that are not of their job's present token: a finished job
     * needs only the blobs that its files name.
     */
    readonly findOrphans: (
      blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
    ) => Effect.Effect<ReadonlyArray<Orphan>, StoreUnavailable>

    /** Reads what the store remembers about its blob store. */
    readonly readLineage: Effect.Effect<StoredLineage, StoreUnavailable>
    /** Replaces that text where it still has this version. Returns false, and writes nothing, where another process was first. */
    readonly writeLineage: (version: number, document: string) => Effect.Effect<boolean, StoreUnavailable>
  }
>()("@kiln/core/ports/JobStore") {}
