import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type {
  FileId,
  Job,
  JobId,
  KeyId,
  OutputFile,
  PolledJob,
  Principal,
  Signal,
  StoreUnavailable,
} from "../domain/index.ts"
import type { OrphanReason } from "../domain/BlobKey.ts"
import type { PublishedRule, RetentionAge, RetentionPublication } from "./Retention.ts"
import type {
  Checkpoint,
  ChunkPage,
  ChunkQuestion,
  ChunkTotal,
  ChunkWrite,
  ClaimRef,
  ClaimRequest,
  ClaimResult,
  Completion,
  Deferral,
  ExtendOutcome,
  Extension,
  Failure,
  FencedOutcome,
  SignalOutcome,
  SignalRequest,
} from "./JobClaim.ts"
import type { CreateOutcome, NewJob } from "../domain/acceptance.ts"
import type { Rescheduling } from "../domain/Rescheduling.ts"
import type { LedgerPage, LedgerPart } from "./Ledger.ts"

/** The outcome of one item of `cancelJobs`. */
export type CancelOutcome = "Canceled" | "AlreadyFinished" | "NotFound"

export type { Rescheduling } from "../domain/Rescheduling.ts"
/**
 * `Ready`: the job can be claimed already, and was to. `Unchanged`: it has the priority that it was to have. `Started`: it had an attempt, and was to have had none. `Held`: a worker runs it.
 * `Parked`: it waits for an event.
 */
export type RescheduleOutcome =
  | "Rescheduled"
  | "Unchanged"
  | "Ready"
  | "Started"
  | "Held"
  | "Parked"
  | "AlreadyFinished"
  | "NotFound"

/** A request to erase a job's data. `principal` must own the job. */
export interface Erasure {
  readonly jobId: JobId
  readonly principal: Principal
}
export type EraseOutcome =
  /** The data is unreachable from now on. The blobs under these prefixes must still be purged. */
  | { readonly _tag: "Erased"; readonly purges: ReadonlyArray<Purge> }
  /** The data was already gone. Purges that are still due are included. */
  | { readonly _tag: "AlreadyErased"; readonly purges: ReadonlyArray<Purge> }
  | { readonly _tag: "Unfinished" }
  | { readonly _tag: "NotFound" }

/** Blobs that nothing refers to any more and that must still be removed. The record is kept until removal is confirmed. */
export interface Purge {
  readonly blobPrefix: string
}

/** The result of a pruning step. */
export interface PruneResult {
  /** Number of records changed. Fewer than the limit means that nothing is left for now. */
  readonly count: number
  readonly purges: ReadonlyArray<Purge>
}

/** A blob that no record names and no claim or transfer can still commit. */
export interface Orphan {
  readonly blobKey: string
  readonly reason: OrphanReason
}

/** The store's lineage text, with the facts needed to judge it. */
export interface StoredLineage {
  /** Raised by each write; 0 before the first. */
  readonly version: number
  /** The text last written; `null` before the first. */
  readonly document: string | null
  /** Store time, Unix milliseconds. */
  readonly now: number
  /** The highest id body of all jobs and uploads; `null` in an empty store. */
  readonly newestId: string | null
}

/** The result of `createAndClaimJobs`. */
export interface CreatedAndClaimed {
  /** The outcome of each job, in their order. */
  readonly created: ReadonlyArray<CreateOutcome>
  /** The result of the claim; `undefined` if the store did not claim. */
  readonly claimed: ClaimResult | undefined
}

/** The result of `completeAndClaimJobs`. */
export interface CompletedAndClaimed {
  /** The outcome of each completion, in their order. */
  readonly completed: ReadonlyArray<FencedOutcome>
  /** The result of the claim; `undefined` if the store did not claim. */
  readonly claimed: ClaimResult | undefined
}

/** A file that is still reachable, with the job that owns it. */
export interface StoredFile extends OutputFile {
  readonly jobId: JobId
}

/** The failures that a store survives, so that tests know what to expect. */
export interface StoreCapabilities {
  /** Written records survive the process. */
  readonly durable: boolean
  /** Several processes may use it at once. */
  readonly multiProcess: boolean
}

/**
 * The records of jobs. Every verb is one atomic step with its own transaction. Once a verb has returned, its changes are as
 * durable as the store's capabilities promise. Verbs take batches. Each item has its own outcome, in the order of the items, and
 * a refused item does not affect the others. All times are the store's. After `StoreUnavailable` it is unknown whether the step
 * happened, but every verb can be repeated: creations have a key, claims have a fencing token, and an end that was already
 * written is recognized (`isRepeatedEnd`) and gets its first answer. A claim that is passed twice to a verb, in one batch or in
 * two, is written once and gets the same answer twice.
 */
export class JobStore extends Context.Service<
  JobStore,
  {
    readonly capabilities: StoreCapabilities

    /**
     * Maximum number of calls of `createJobs` in progress at the same time that are faster than one after the other; default 1.
     * More than one is only for stores whose calls run outside of this process.
     */
    readonly parallelCreations?: number

    /**
     * Lets concurrent callers of `findJobs`, `pollJobs` and `JobDirectory.readJobs` share calls, of which at most this number are in progress at the same time.
     * For stores whose calls run outside of this process: in others, sharing takes longer than reading.
     */
    readonly parallelReads?: number

    /**
     * Creates jobs. Checks idempotency, retried job, gate, upload and queue cap in that order, and inserts, all in one
     * transaction.
     */
    readonly createJobs: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable>

    /**
     * `createJobs`, followed by `claimJobs`, in one transaction. The claim is an ordinary one: it follows the order of all jobs,
     * so it may return others than those created. A store may create without claiming (`claimed` is `undefined`); the caller then
     * claims by itself. After a failure, repeat `createJobs`; a claim whose answer was lost ends with its leases.
     */
    readonly createAndClaimJobs: (
      jobs: ReadonlyArray<NewJob>,
      request: ClaimRequest,
    ) => Effect.Effect<CreatedAndClaimed, StoreUnavailable>

    /** Returns each job if its principal owns it. There is no way to read another caller's job. */
    readonly findJobs: (
      items: ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>,
    ) => Effect.Effect<ReadonlyArray<Job | undefined>, StoreUnavailable>

    /** `findJobs` for callers that poll, which is the most frequent call: reads only what a poll shows. */
    readonly pollJobs: (
      items: ReadonlyArray<{ readonly jobId: JobId; readonly principal: Principal }>,
    ) => Effect.Effect<ReadonlyArray<PolledJob | undefined>, StoreUnavailable>

    /** Returns the job that this key created with an idempotency key. */
    readonly findByIdempotencyKey: (
      keyId: KeyId,
      idempotencyKey: string,
    ) => Effect.Effect<Job | undefined, StoreUnavailable>

    /** Returns a file whose job is done and still has its data. */
    readonly findFile: (fileId: FileId) => Effect.Effect<StoredFile | undefined, StoreUnavailable>

    /**
     * Claims jobs within the concurrency limits. Projects take turns; the jobs of a project come by priority, then in order of
     * arrival.
     */
    readonly claimJobs: (request: ClaimRequest) => Effect.Effect<ClaimResult, StoreUnavailable>

    readonly extendLeases: (
      items: ReadonlyArray<Extension>,
    ) => Effect.Effect<ReadonlyArray<ExtendOutcome>, StoreUnavailable>
    readonly checkpointJobs: (
      items: ReadonlyArray<Checkpoint>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /** Keeps chunks of jobs, and tells the readers in other processes. A chunk that is kept already stays as it is. */
    readonly appendChunks: (
      items: ReadonlyArray<ChunkWrite>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /** Reads chunks of jobs of any owner, in the order of their indexes; `undefined` for an unknown job. */
    readonly readChunks: (
      items: ReadonlyArray<ChunkQuestion>,
    ) => Effect.Effect<ReadonlyArray<ChunkPage | undefined>, StoreUnavailable>
    /** Counts the chunks that a job keeps. */
    readonly countChunks: (jobId: JobId) => Effect.Effect<ChunkTotal, StoreUnavailable>
    /**
     * Completes jobs, and creates their follow-ups in the same transaction. A repeat returns `Written` as long as the record exists, even
     * if its data was erased.
     */
    readonly completeJobs: (
      items: ReadonlyArray<Completion>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /**
     * `completeJobs`, followed by `claimJobs`, in one transaction, so that the slots of the completed jobs are filled again without a second
     * commit. The claim is an ordinary one. A store may complete without claiming (`claimed` is `undefined`). After a failure, repeat
     * `completeJobs`; a claim whose answer was lost ends with its leases.
     */
    readonly completeAndClaimJobs: (
      items: ReadonlyArray<Completion>,
      request: ClaimRequest,
    ) => Effect.Effect<CompletedAndClaimed, StoreUnavailable>
    /** Only a call with the same error code counts as a repeat. */
    readonly failJobs: (items: ReadonlyArray<Failure>) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /** Returns a job to the queue with a delay, or parks it. A repeat is recognized until the next claim. */
    readonly deferJobs: (
      items: ReadonlyArray<Deferral>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>
    /** Returns a job to the queue immediately. After a deferral by the same claim it is a no-op. */
    readonly releaseJobs: (
      items: ReadonlyArray<ClaimRef>,
    ) => Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable>

    /**
     * Keeps signals of unfinished jobs, the first value of each name, and makes a job claimable that is parked on one. A repeat is
     * recognized as long as the job's data is kept, also after the job has finished.
     */
    readonly signalJobs: (
      items: ReadonlyArray<SignalRequest>,
    ) => Effect.Effect<ReadonlyArray<SignalOutcome>, StoreUnavailable>
    /** Lists the signals that a job keeps, in the order of their names. Empty for an unknown job. */
    readonly listSignals: (jobId: JobId) => Effect.Effect<ReadonlyArray<Signal>, StoreUnavailable>

    /**
     * Fails unfinished jobs of any project, even while a worker holds them (`canceled_by_operator`). A repeat returns
     * `AlreadyFinished`.
     */
    readonly cancelJobs: (jobIds: ReadonlyArray<JobId>) => Effect.Effect<ReadonlyArray<CancelOutcome>, StoreUnavailable>
    /**
     * Changes when waiting jobs of any project may be claimed, or their priority; the next claim goes by that. Never affects a job that a
     * worker holds, nor the time of one that is parked. A job that is to be claimable and is so already keeps its place in the line.
     */
    readonly rescheduleJobs: (
      items: ReadonlyArray<Rescheduling>,
    ) => Effect.Effect<ReadonlyArray<RescheduleOutcome>, StoreUnavailable>
    /** Returns whether each claim still holds its job. It only reads, so a claim may be lost a moment later. */
    readonly checkClaims: (items: ReadonlyArray<ClaimRef>) => Effect.Effect<ReadonlyArray<boolean>, StoreUnavailable>

    /** Fails up to `limit` jobs whose deadline has passed, and returns their ids. */
    readonly expireJobs: (limit: number) => Effect.Effect<ReadonlyArray<JobId>, StoreUnavailable>

    /** Deletes the retained data of finished jobs: request, checkpoints, records of attempts, signals, chunks, output, files, upload. */
    readonly eraseJobs: (items: ReadonlyArray<Erasure>) => Effect.Effect<ReadonlyArray<EraseOutcome>, StoreUnavailable>

    /**
     * Stores how long a process keeps the kinds that it knows. Replaces its own rules, and rules of these kinds by processes that
     * have stopped: at once if they had the same program, otherwise after `graceMs`. All others stay, also when no process is left.
     */
    readonly publishRetention: (publication: RetentionPublication) => Effect.Effect<void, StoreUnavailable>
    /** Lists the published rules by kind, then by publisher. */
    readonly readRetention: Effect.Effect<ReadonlyArray<PublishedRule>, StoreUnavailable>

    /**
     * Does the same for up to `limit` jobs that finished at least `olderThanMs` ago, of each kind the oldest first. A child stays
     * while its parent is unfinished, which may still need it.
     */
    readonly expireData: (olderThanMs: RetentionAge, limit: number) => Effect.Effect<PruneResult, StoreUnavailable>

    /**
     * Removes the records and data of up to `limit` jobs that finished at least `olderThanMs` ago, of each kind the oldest first.
     * A child stays while its parent is unfinished.
     */
    readonly deleteJobs: (olderThanMs: RetentionAge, limit: number) => Effect.Effect<PruneResult, StoreUnavailable>

    /**
     * Lists charges by `chargedAt`, then by `jobId`; a full page may be followed by another. It also writes: it closes the ledger
     * up to `until`, so a charge that is committed later gets a time of `until` or later.
     */
    readonly listCharges: (page: LedgerPage) => Effect.Effect<LedgerPart, StoreUnavailable>

    /** Lists up to `limit` unconfirmed purges, oldest first. */
    readonly listPurges: (limit: number) => Effect.Effect<ReadonlyArray<Purge>, StoreUnavailable>
    /** Lists up to `limit` purges that are due: those that failed least often first, of these the longest due. */
    readonly nextPurges: (limit: number) => Effect.Effect<ReadonlyArray<Purge>, StoreUnavailable>
    /** Notes that purges have failed, and moves them back by `purgePauseMs`. One that is not due any more stays as it is. */
    readonly postponePurges: (purges: ReadonlyArray<Purge>) => Effect.Effect<void, StoreUnavailable>
    /** Makes all purges due. */
    readonly hastenPurges: Effect.Effect<void, StoreUnavailable>
    /** Records that the blobs under these prefixes are verified to be gone. */
    readonly confirmPurges: (purges: ReadonlyArray<Purge>) => Effect.Effect<void, StoreUnavailable>

    /**
     * Returns, in their order, the given job blobs that no record names and that do not carry their job's current token. A
     * finished job needs only the blobs that its files name.
     */
    readonly findOrphans: (
      blobs: ReadonlyArray<{ readonly blobKey: string; readonly jobId: JobId; readonly token: number }>,
    ) => Effect.Effect<ReadonlyArray<Orphan>, StoreUnavailable>

    /** Reads the store's lineage text. */
    readonly readLineage: Effect.Effect<StoredLineage, StoreUnavailable>
    /** Replaces the lineage text if it still has this version. Returns false and writes nothing if another process was first. */
    readonly writeLineage: (version: number, document: string) => Effect.Effect<boolean, StoreUnavailable>
  }
>()("@kiln/core/ports/JobStore") {}

/**
 * Creates jobs inside a transaction of the embedding program. They exist if and only if that transaction commits, which then
 * wakes the workers of this installation. The adapter defines which handles are transactions; any other handle is a defect
 * (`TypeError`).
 *
 * It takes no lock that another caller's transaction needs, unless both use the same idempotency key, upload or scope. Two open
 * transactions do not see each other's jobs, so the queue cap, which is counted without a lock, may be exceeded by that many
 * jobs.
 */
export class CallerTransactions extends Context.Service<
  CallerTransactions,
  {
    /** Decides and writes like `JobStore.createJobs`, but takes effect only when the caller commits. */
    readonly createJobs: (
      transaction: unknown,
      jobs: ReadonlyArray<NewJob>,
    ) => Effect.Effect<ReadonlyArray<CreateOutcome>, StoreUnavailable>
    /**
     * Keeps signals like `JobStore.signalJobs`, but they take effect only when the caller commits. The job is locked by none of it until
     * then. Two open transactions that signal the same name of a job wait for each other.
     */
    readonly signalJobs: (
      transaction: unknown,
      items: ReadonlyArray<SignalRequest>,
    ) => Effect.Effect<ReadonlyArray<SignalOutcome>, StoreUnavailable>
    /** The same as a synchronous call, if the adapter's handles are synchronous. Throws `StoreUnavailable`. */
    readonly synchronous:
      | {
          readonly createJobs: (transaction: unknown, jobs: ReadonlyArray<NewJob>) => ReadonlyArray<CreateOutcome>
          readonly signalJobs: (
            transaction: unknown,
            items: ReadonlyArray<SignalRequest>,
          ) => ReadonlyArray<SignalOutcome>
        }
      | undefined
  }
>()("@kiln/core/ports/CallerTransactions") {}

/**
 * When true, a store verb that needs a row locked by another transaction gives up early: the item ends as `contended` and nothing
 * is written for it, because other callers share its batch. When false, the default, the verb keeps retrying the conflict for as
 * long as the store allows. A store whose transactions never wait for each other can ignore it.
 */
export const ShortLockWait = Context.Reference<boolean>("@kiln/core/ports/ShortLockWait", { defaultValue: () => false })
