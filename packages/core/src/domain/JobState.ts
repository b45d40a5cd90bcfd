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

/** The times of a claim. They are compared with store time only. */
export interface LeaseTimes {
  /** The lease's end, exclusive: at this instant another worker may claim. */
  readonly claimableAt: number
  /** When the sweep fails the job unless it moves before. */
  readonly deadlineAt: number
}

type Budgets = Pick<JobState, "queueLimitMs" | "runLimitMs" | "ranMs" | "waitedMs">

/**
 * Returns the lease granted at `now` to a claim that began at `phaseStartedAt`. It never extends past the run limit. If it ends
 * there, the job is overdue at that instant (`job_timeout`). If it ends earlier and no worker claims the job within the rest of
 * its queue limit, its worker is lost (`isLost`).
 */
export const leaseAt = (budgets: Budgets, phaseStartedAt: number, now: number, leaseDurationMs: number): LeaseTimes => {
  const runDeadline = phaseStartedAt + budgets.runLimitMs - budgets.ranMs
  const claimableAt = Math.min(now + leaseDurationMs, runDeadline)
  return {
    claimableAt,
    deadlineAt: claimableAt === runDeadline ? runDeadline : claimableAt + queueBudgetMs(budgets),
  }
}

/** Returns how many milliseconds a job may still wait. */
export const queueBudgetMs = (budgets: Pick<Budgets, "queueLimitMs" | "waitedMs">): number =>
  Math.max(0, budgets.queueLimitMs - budgets.waitedMs)

/**
 * Returns whether a claim with this token still holds the job. Every fenced verb checks exactly this, in the statement that
 * writes.
 */
export const holdsClaim = (job: Pick<JobState, "status" | "held" | "token">, token: number): boolean =>
  job.status === "processing" && job.held && job.token === token

/** Returns whether the sweep must fail the job now. */
export const isOverdue = (job: Pick<JobState, "deadlineAt">, now: number): boolean =>
  job.deadlineAt !== null && job.deadlineAt <= now

/** Returns whether a worker may claim the job now. An overdue job is left to the sweep. */
export const isClaimable = (job: Pick<JobState, "claimableAt" | "deadlineAt">, now: number): boolean =>
  job.claimableAt !== null && job.claimableAt <= now && !isOverdue(job, now)

/**
 * Returns whether an overdue job's worker vanished: the job is still held, and the run limit did not end its lease. The sweep
 * returns the job to the queue (`lost`), where it starts to wait. A held job never fails for waiting, because a clock that jumps
 * past its deadline says nothing about the worker that holds it.
 */
export const isLost = (job: Pick<JobState, "held" | "claimableAt" | "deadlineAt">, now: number): boolean =>
  isOverdue(job, now) && job.held && job.claimableAt !== job.deadlineAt

/** Returns why an overdue job fails. A held job was ended by the run limit (see `isLost`). */
export const overdueCode = (job: Pick<JobState, "held">): "job_timeout" | "queue_timeout" =>
  job.held ? "job_timeout" : "queue_timeout"

/**
 * Returns whether a claim must fail the job instead (`abandoned`), because it has lost too many workers, including the one that
 * still holds it.
 */
export const lostTooMany = (job: Pick<JobState, "held" | "lostWorkers">, maxLostWorkers: number): boolean =>
  job.lostWorkers + (job.held ? 1 : 0) >= maxLostWorkers

/**
 * Returns since when a job waits whose prerequisites finished at these times: now if one has not, `undefined` if the job has none. One that is
 * parked on its prerequisites is woken by their ends; this is for jobs that no worker has claimed.
 */
export const waitsSince = (finishedAt: ReadonlyArray<number | null>, now: number): number | undefined =>
  finishedAt.length === 0 ? undefined : Math.max(...finishedAt.map((at) => at ?? now))

/** Returns the event by which the sweep ends the waiting or running of an overdue job. `since` is as `waitsSince` returns it. */
export const overdueEvent = (
  job: JobState & { readonly createdAt: number },
  now: number,
  since: number | undefined,
):
  | { readonly event: "lost"; readonly createdAt: number }
  | { readonly event: "postponed"; readonly since: number }
  | { readonly event: "expired" } => {
  if (isLost(job, now)) return { event: "lost", createdAt: job.createdAt }
  return since !== undefined && isPostponed(job, since, now) ? { event: "postponed", since } : { event: "expired" }
}

/** Returns whether a job that no worker has claimed still has some of its queue limit if it waits since then. */
export const isPostponed = (job: Pick<JobState, "status" | "queueLimitMs">, since: number, now: number): boolean =>
  job.status === "queued" && since <= now && since + job.queueLimitMs > now
