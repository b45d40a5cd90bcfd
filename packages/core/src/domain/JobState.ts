import type { ErrorCode } from "./ErrorCode.ts"

/** The status that a caller sees. `done` and `failed` are final; a status never goes backwards. */
export type JobStatus = "queued" | "processing" | "done" | "failed"

/** Limits of a job's waiting and running time, fixed when it is created. */
export interface JobLimits {
  /** Milliseconds of waiting in total: in the queue, between attempts, for a gate. A job that is held never waits. */
  readonly queueLimitMs: number
  /** Milliseconds under lease, the sum over all attempts. */
  readonly runLimitMs: number
}

/**
 * The part of a job that transitions change. All times are unix milliseconds in store time.
 *
 * One column is both lease and availability: `claimableAt` is the creation time while queued, the end of the lease while claimed,
 * and the time of the next attempt after a failure. Any job past it may be claimed, so a lost worker needs no rescue process.
 */
export interface JobState extends JobLimits {
  readonly status: JobStatus
  /** Fencing token: grows with every claim and every end of a claim, so that no two claims ever share one. 0 before the first. */
  readonly token: number
  /** Whether a worker holds the job. If a held job is claimed, its previous worker counts as lost. */
  readonly held: boolean
  /** `null` when finished. */
  readonly claimableAt: number | null
  /** When the sweep fails the job unless it moves before; `null` when finished. */
  readonly deadlineAt: number | null
  /** Start of the current phase, waiting or held; `null` when finished. */
  readonly phaseStartedAt: number | null
  /** Milliseconds under lease in ended phases. Time between the end of a lease and the next claim or sweep is in neither sum. */
  readonly ranMs: number
  /** Milliseconds of waiting in ended phases. */
  readonly waitedMs: number
  /** Number of claims so far; while held, the number of the current attempt. */
  readonly attempts: number
  /** Attempts that ended because a provider failed. */
  readonly failures: number
  /** Claims whose worker was lost. */
  readonly lostWorkers: number
  readonly errorCode: ErrorCode | null
  readonly finishedAt: number | null
}

export const isFinished = (job: { readonly status: JobStatus }): boolean =>
  job.status === "done" || job.status === "failed"
