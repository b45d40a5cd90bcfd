import type {
  Charge,
  ConcurrencyLimits,
  ErrorCode,
  Job,
  JobId,
  JobMode,
  Json,
  JsonObject,
  OutputFile,
  WarningCode,
  WorkerRoom,
} from "../domain/index.ts"
import type { Upload } from "../domain/index.ts"

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
  /**
   * The free slots of the worker that asks and what one project may hold of them; absent, there is no bound but `limit`. A lane
   * whose mode has no free slot, or whose project holds its share, is passed over like a lane at its limit. Only the worker
   * knows when that changes, so `nextInMs` says nothing of such lanes.
   */
  readonly worker?: WorkerRoom | undefined
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
