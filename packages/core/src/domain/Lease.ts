import type { JobState } from "./JobState.ts"

/** What a claim is worth until when. Compared in store time only. */
export interface LeaseTimes {
  /** The lease's end, exclusive: at this instant another worker may claim. */
  readonly claimableAt: number
  /** When the sweep fails the job if nothing happens. */
  readonly deadlineAt: number
}

type Budgets = Pick<JobState, "queueLimitMs" | "runLimitMs" | "ranMs" | "waitedMs">

/**
 * The lease granted at `now` to a claim that began at `phaseStartedAt`. It never reaches past the
 * run limit. If it ends there, the job is overdue at that instant (`job_timeout`); if it ends
 * earlier and nobody claims the job for what is left of its queue limit, its worker is lost (`isLost`).
 */
export const leaseAt = (budgets: Budgets, phaseStartedAt: number, now: number, leaseDurationMs: number): LeaseTimes => {
  const runDeadline = phaseStartedAt + budgets.runLimitMs - budgets.ranMs
  const claimableAt = Math.min(now + leaseDurationMs, runDeadline)
  return {
    claimableAt,
    deadlineAt: claimableAt === runDeadline ? runDeadline : claimableAt + queueBudgetMs(budgets),
  }
}

/** Milliseconds a job may still wait. */
export const queueBudgetMs = (budgets: Pick<Budgets, "queueLimitMs" | "waitedMs">): number =>
  Math.max(0, budgets.queueLimitMs - budgets.waitedMs)

/** Whether a claim made with this token still holds the job. Every fenced verb asks exactly this, in the statement that writes. */
export const holdsClaim = (job: Pick<JobState, "status" | "held" | "token">, token: number): boolean =>
  job.status === "processing" && job.held && job.token === token

/** Whether the sweep must fail the job now. */
export const isOverdue = (job: Pick<JobState, "deadlineAt">, now: number): boolean =>
  job.deadlineAt !== null && job.deadlineAt <= now

/** Whether a worker may claim the job now. An overdue one is the sweep's. */
export const isClaimable = (job: Pick<JobState, "claimableAt" | "deadlineAt">, now: number): boolean =>
  job.claimableAt !== null && job.claimableAt <= now && !isOverdue(job, now)

/**
 * Whether an overdue job's worker vanished: it is still held, and no run limit ended its lease. The sweep takes the job back
 * (`lost`), and its waiting begins then. A held job never fails for waiting: a clock that jumps past its deadline says
 * nothing about the worker that has it.
 */
export const isLost = (job: Pick<JobState, "held" | "claimableAt" | "deadlineAt">, now: number): boolean =>
  isOverdue(job, now) && job.held && job.claimableAt !== job.deadlineAt

/** Why an overdue job fails. One that is held was cut short by the run limit (see `isLost`). */
export const overdueCode = (job: Pick<JobState, "held">): "job_timeout" | "queue_timeout" =>
  job.held ? "job_timeout" : "queue_timeout"

/** Whether a claim must fail the job instead (`abandoned`): the workers it lost, the one that still holds it included, are all it can afford. */
export const lostTooMany = (job: Pick<JobState, "held" | "lostWorkers">, maxLostWorkers: number): boolean =>
  job.lostWorkers + (job.held ? 1 : 0) >= maxLostWorkers
