import type {
  AttemptRecord,
  AttemptWait,
  Charge,
  Chunk,
  ConcurrencyLimits,
  ErrorCode,
  Job,
  JobId,
  JobMode,
  Json,
  JsonObject,
  OutputFile,
  Parking,
  Principal,
  WarningCode,
  Upload,
} from "../domain/index.ts"
import type { WorkerRoom } from "../domain/JobsInProgress.ts"
import type { NewJob } from "../domain/acceptance.ts"

/**
 * Jobs that a worker can run now. A lane holds one project's jobs of one kind, version and mode. Each version has its own lanes,
 * so that a job of a version this worker cannot run never blocks the others.
 */
export interface Runnable {
  readonly kind: string
  readonly kindVersion: number
  readonly mode: JobMode
}

/**
 * A worker's request for jobs.
 *
 * A job counts as running while it is held under a lease that has not ended, so jobs of lost workers make room by themselves. A
 * lane is at its limit when as many jobs of its kind and mode, or of its project and mode, are running as `limits` allow. Jobs
 * that the claim hands out count immediately. A lane at its limit is skipped for the rest of the claim: it takes no turn, keeps
 * its place in the order, and its jobs, including those to be abandoned, do not change.
 *
 * Limits apply to claims only. Each claim uses its own limits, and none stops jobs that already run, or run again because a lease
 * was extended after its end.
 */
export interface ClaimRequest {
  readonly runnable: ReadonlyArray<Runnable>
  readonly limits: ConcurrencyLimits
  /** Claims at most this many. */
  readonly limit: number
  /**
   * The worker's free slots, and how many of them one project may hold; if omitted, only `limit` applies. A lane whose mode has
   * no free slot, or whose project holds its share, is skipped like a lane at its limit. Only the worker knows when that changes,
   * so `nextInMs` ignores such lanes.
   */
  readonly worker?: WorkerRoom | undefined
  readonly leaseDurationMs: number
  /** A job that loses its worker this many times fails (`attempts_exhausted`). */
  readonly maxLostWorkers: number
}

/** A job that a worker holds under a lease. */
export interface Claim {
  readonly job: Job
  /** The fencing token, which every later verb about this job must present. */
  readonly token: number
  /**
   * Milliseconds of lease from the moment the store granted it. A worker counts them on its own monotonic clock, from before it
   * sent the request.
   */
  readonly leaseRemainingMs: number
  /** The upload it consumes; `null` where the kind has none. */
  readonly upload: Upload | null
}

export interface ClaimResult {
  readonly claims: ReadonlyArray<Claim>
  /** Jobs that had lost too many workers and were failed instead. */
  readonly abandoned: ReadonlyArray<JobId>
  /**
   * Milliseconds until another job may become claimable (a lower bound); `undefined` if nothing is waiting. It is 0 if and only
   * if a lane below its limits has more claimable jobs now. A lane at its limit counts from the first end of a lease that counts
   * against the limit.
   */
  readonly nextInMs: number | undefined
}

/** Identifies a claim. */
export interface ClaimRef {
  readonly jobId: JobId
  readonly token: number
}

/**
 * `Written`: the change is durable. It was written now, or by an earlier call of the same claim whose answer was lost. The first
 * call's values stand; a repeat writes nothing.
 *
 * `LeaseLost`: the claim no longer holds the job, and nothing was written now. A repeat after another worker's claim, or after
 * the record was removed, also gets this answer. In every case the claim can write nothing more.
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

/** Chunks that an attempt has emitted, in their order. */
export interface ChunkWrite extends ClaimRef {
  readonly attempt: number
  /** The index of the first one. It is the number of chunks that the job keeps, except in a repeat. */
  readonly first: number
  readonly values: ReadonlyArray<Json>
}

/** A question for chunks of a job. */
export interface ChunkQuestion {
  readonly jobId: JobId
  /** The index of the first one. */
  readonly from: number
  /** With 0, only whether the job has finished is read. */
  readonly limit: number
}

/** Chunks of a job, as of one moment. */
export interface ChunkPage {
  readonly chunks: ReadonlyArray<Chunk>
  /** Whether the job has finished, so that no chunk follows those that it keeps. */
  readonly isFinished: boolean
}

/** The size of what a job keeps. */
export interface ChunkTotal {
  readonly count: number
  /** Of their JSON, in UTF-8. */
  readonly bytes: number
}

export interface Completion extends ClaimRef {
  readonly output: JsonObject
  /** Their blobs are durable already. */
  readonly files: ReadonlyArray<OutputFile>
  readonly warningCode: WarningCode | null
  /** Set for live jobs only. Written once, in this transaction. */
  readonly charge: Charge | null
  /**
   * Jobs that exist exactly if this completion is written: they are created in its transaction, by the first call only. None of them names
   * a retry, an upload, a scope or a schedule. They never refuse the completion: one that `createJobs` would refuse is created as failed
   * (`refusedJob`).
   */
  readonly followUps?: ReadonlyArray<NewJob> | undefined
}

export interface Failure extends ClaimRef {
  readonly errorCode: ErrorCode
  /** The job's message for its caller. Stored as its output, by `failedOutput`. */
  readonly message?: string | undefined
  /** Kept with the job's data. A repeat does not change it. */
  readonly record?: AttemptRecord | undefined
}

export interface Deferral extends ClaimRef {
  readonly delayMs: number
  /** Whether it counts against the failure budget. */
  readonly countsAsFailure: boolean
  /** For an attempt that failed. Kept with the job's data. A repeat does not change it. */
  readonly record?: AttemptRecord | undefined
  /** For an attempt that ended to wait. Kept with the job's record. A repeat does not change it. */
  readonly wait?: AttemptWait | undefined
  /**
   * Parks the job instead, until its event or a time: `delayMs`, `countsAsFailure`, `record` and `wait` have no effect then. If the event
   * has come already, the job is claimable at once.
   */
  readonly park?: Parking | undefined
}

/** The owner of a job. A field that is omitted may be any. */
export type SignalOwner = Pick<Principal, "projectId"> & Partial<Pick<Principal, "keyId" | "mode">>

/** A signal for a job. */
export interface SignalRequest {
  readonly jobId: JobId
  /** The owner that the job must have; any if omitted, for operators. */
  readonly owner?: SignalOwner | undefined
  readonly name: string
  readonly value: Json
}

/**
 * The outcome of a signal. `Accepted`: it is kept, and the job is claimable if it waits for it. `Repeated`: the same value came before
 * under this name. `Superseded`: another value came before, which stands. `Full`: the job keeps as many signals as it can.
 */
export type SignalOutcome = "Accepted" | "Repeated" | "Superseded" | "Full" | "Finished" | "NotFound"
