import type { ErrorCode } from "./ErrorCode.ts"

/** What a caller sees. `done` and `failed` are finished and final; a status never goes backwards. */
export type JobStatus = "queued" | "processing" | "done" | "failed"

/** Bounds on a job's life, fixed when it is created. */
export interface JobLimits {
  /** Milliseconds of waiting, all of it together: in line, between attempts, for a gate. A job that is held never waits. */
  readonly queueLimitMs: number
  /** Milliseconds under lease, the sum over all attempts. */
  readonly runLimitMs: number
}

/**
 * The part of a job that transitions change. All times are unix milliseconds in store time.
 *
 * One column carries both leases and availability: `claimableAt` is the creation time while
 * queued, the lease's end while claimed, and the time of the next try after a failure. Whatever is
 * past it may be claimed, so a lost worker needs no rescuer.
 */
export interface JobState extends JobLimits {
  readonly status: JobStatus
  /** Fencing token: grows with every claim and every end of a claim, so that no two claims ever share one. 0 before the first. */
  readonly token: number
  /** A claim is out. Claiming a job that is still held means its worker was lost. */
  readonly held: boolean
  /** `null` when finished. */
  readonly claimableAt: number | null
  /** When the sweep fails the job, unless something happens first; `null` when finished. */
  readonly deadlineAt: number | null
  /** Start of the present phase, waiting or held; `null` when finished. */
  readonly phaseStartedAt: number | null
  /** Time under lease of the phases that ended. Time after a lease's end, until a claim or the sweep noticed, is in neither sum. */
  readonly ranMs: number
  /** Time waiting of the phases that ended. */
  readonly waitedMs: number
  /** Claims so far; the current attempt's number while held. */
  readonly attempts: number
  /** Attempts that ended because a provider failed. */
  readonly failures: number
  /** Claims whose worker never came back. */
  readonly lostWorkers: number
  readonly errorCode: ErrorCode | null
  readonly finishedAt: number | null
}

export const isFinished = (job: { readonly status: JobStatus }): boolean =>
  job.status === "done" || job.status === "failed"
