import { Context, type Effect } from "effect"
import type {
  Charge,
  ConcurrencyLimits,
  ErrorCode,
  FileId,
  Gate,
  Job,
  JobId,
  JobLimits,
  JobMode,
  Json,
  JsonObject,
  KeyId,
  OutputFile,
  Principal,
  Priority,
  ProjectId,
  StoreUnavailable,
  SwitchName,
  UploadId,
  UploadRefusal,
  WarningCode,
} from "../domain/index.ts"
import type { Upload } from "../domain/index.ts"
import type { LedgerEntry, LedgerPage } from "./Ledger.ts"

/** A job to be accepted. */
export interface NewJob {
  readonly id: JobId
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly mode: JobMode
  readonly kind: string
  /** The version of the kind the request was made for, at least 1. */
  readonly kindVersion: number
  readonly request: JsonObject
  readonly priority: Priority
  /** Milliseconds before which it is not claimed; 0 begins at once. Its queue limit counts from then on. */
  readonly delayMs: number
  /** Fields of the request that stay when its data is erased. */
  readonly kept: JsonObject
  /**
   * The failed job this one is another try of; `null` for all others. It must belong to the same key, be failed and have its
   * data, and what it consumed goes over to this one in the same transaction: `uploadId` is that of the failed job then.
   */
  readonly retryOf: JobId | null
  /** Consumed by this job in the same transaction. */
  readonly uploadId: UploadId | null
  /** Transfers an upload allows: after the last one failed, nothing can arrive any more. */
  readonly maxTransfers: number
  readonly idempotencyKey: string
  readonly fingerprint: string
  /** `null` for sandbox jobs, which need no prerequisites and cost nothing. */
  readonly gate: Gate | null
  /** Switches this process's environment forces off. */
  readonly forcedOff: ReadonlyArray<SwitchName>
  readonly limits: JobLimits
  /** Unfinished jobs its project may have, this one included; 0 is no cap. */
  readonly queueCap: number
}

/** What became of one item of `createJobs`, in the order of precedence. */
export type CreateOutcome =
  /** The key's job already exists and asked for the same: this is it. */
  | { readonly _tag: "Replayed"; readonly job: Job }
  /** The key belongs to a job that asked for something else. */
  | { readonly _tag: "KeyReused" }
  /** There is no such failed job with its data any more. */
  | { readonly _tag: "NotRetryable" }
  | { readonly _tag: "GateClosed"; readonly missing: ReadonlyArray<string> }
  | { readonly _tag: "UploadRefused"; readonly reason: UploadRefusal }
  | { readonly _tag: "QueueFull" }
  | { readonly _tag: "Created"; readonly job: Job }

/**
 * Which jobs a worker can run now: a lane is one project's jobs of one kind, version and mode. Versions have lanes of their
 * own, so that a job nobody here can run never stands at the head of a line.
 */
export interface Runnable {
  readonly kind: string
  readonly kindVersion: number
  readonly mode: JobMode
}

/**
 * What a worker asks for.
 *
 * A job is in hand while it is held under a lease that has not ended: jobs of lost workers make room by themselves. A lane
 * is at its limit when as many jobs of its kind and mode, or of its project and mode, are in hand as `limits` allow; what
 * the claim itself hands out counts from that moment. A lane at its limit is passed over for the rest of the claim: it takes
 * no turn and keeps its place in the order, and its jobs, those to be abandoned among them, stay as they are.
 *
 * Limits bind claims only: each goes by its own, and none takes away what others have in hand, or have again because
 * a lease was extended after its end.
 */
export interface ClaimRequest {
  readonly runnable: ReadonlyArray<Runnable>
  readonly limits: ConcurrencyLimits
  /** Claims at most this many. */
  readonly limit: number
  readonly leaseDurationMs: number
  /** A job that loses its worker this often fails (`attempts_exhausted`). */
  readonly maxLostWorkers: number
}

/** A job in a worker's hands. */
export interface Claim {
  readonly job: Job
  /** Goes into every further verb about this job. */
  readonly token: number
  /** Milliseconds of lease from the moment the store granted it: what a worker may count on, on its own monotonic clock, from before it asked. */
  readonly leaseRemainingMs: number
  /** The upload it consumes; `null` where the kind has none. */
  readonly upload: Upload | null
}

export interface ClaimResult {
  readonly claims: ReadonlyArray<Claim>
  /** Jobs that had lost their last worker and were failed instead. */
  readonly abandoned: ReadonlyArray<JobId>
  /**
   * Milliseconds until something else may become claimable (a lower bound); `undefined` when nothing is waiting. It is 0
   * exactly where a lane below its limits has more that is claimable now. A lane at its limit comes no earlier than room
   * does by itself: with the first end of a lease that counts against the limit.
   */
  readonly nextInMs: number | undefined
}

/** Names a claim. */
export interface ClaimRef {
  readonly jobId: JobId
  readonly token: number
}

/**
 * `Written`: it is so, and survives whatever the store survives; written now, or by an earlier try of the same claim
 * whose answer was lost. What that first try said stands, and a repeat writes nothing, whatever it says.
 *
 * `LeaseLost`: the claim no longer holds the job, and nothing was written now. Of a repeat that comes after somebody else's
 * claim, or after the record is gone, this is all that can be said; either way the claim may write no more.
 */
export type FencedOutcome = "Written" | "LeaseLost"

export interface Extension extends ClaimRef {
  readonly leaseDurationMs: number
}
export type ExtendOutcome =
  | { readonly _tag: "Extended"; readonly leaseRemainingMs: number }
  | { readonly _tag: "LeaseLost" }

export interface Checkpoint extends ClaimRef {
  readonly step: string
  readonly value: Json
}

export interface Completion extends ClaimRef {
  readonly output: JsonObject
  /** Their blobs are durable already. */
  readonly files: ReadonlyArray<OutputFile>
  readonly warningCode: WarningCode | null
  /** Exactly for live jobs. Written once, in this transaction. */
  readonly charge: Charge | null
}

export interface Failure extends ClaimRef {
  readonly errorCode: ErrorCode
}

export interface Deferral extends ClaimRef {
  readonly delayMs: number
  /** Whether it counts against the failure budget. */
  readonly countsAsFailure: boolean
}

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

    /** What was charged, by `chargedAt`, then by `jobId`; a full page may be followed by another. */
    readonly listCharges: (page: LedgerPage) => Effect.Effect<ReadonlyArray<LedgerEntry>, StoreUnavailable>

    /** Purges not confirmed yet, oldest first, up to `limit`. */
    readonly listPurges: (limit: number) => Effect.Effect<ReadonlyArray<Purge>, StoreUnavailable>
    /** Says that the blobs under these prefixes are verified gone. */
    readonly confirmPurges: (purges: ReadonlyArray<Purge>) => Effect.Effect<void, StoreUnavailable>

    /**
     * Of these blobs of jobs, those no claim can still commit and no row names: their job is finished
     * or gone, or their token is not the job's present one.
     */
    readonly findOrphans: (
      blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
    ) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  }
>()("@kiln/core/ports/JobStore") {}
