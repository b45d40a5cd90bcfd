import type { ErrorCode } from "./ErrorCode.ts"
import type { JobLimits, JobState, JobStatus } from "./JobState.ts"
import {
  holdsClaim,
  isClaimable,
  isLost,
  isOverdue,
  leaseAt,
  lostTooMany,
  overdueCode,
  queueBudgetMs,
} from "./Lease.ts"

/** One legal move of a job. Its name is the event, its `verb` the store's. */
export interface JobTransition {
  readonly verb: string
  readonly from: ReadonlyArray<JobStatus | "none">
  /** `same` where the status does not change. */
  readonly to: JobStatus | "same"
  /**
   * What the store checks in the statement that writes:
   * `fence`: the caller's token is the job's and the job is held;
   * `claimable`: `claimableAt` has come and the deadline has not;
   * `overdue`: the deadline has come, and the job is not `lost`;
   * `lost`: the deadline has come, the job is held, and no run limit ended its lease; `finished`; `none`.
   */
  readonly guard: "none" | "fence" | "claimable" | "overdue" | "lost" | "finished"
  /** Whether the fencing token grows. */
  readonly token: "kept" | "raised"
  readonly meaning: string
}

/** THE table: every move a job can make, and no other. Stores, docs and tests are written from it. */
export const jobTransitions = {
  created: {
    verb: "createJobs",
    from: ["none"],
    to: "queued",
    guard: "none",
    token: "kept",
    meaning: "accepted, together with its idempotency key, its upload and its price",
  },
  claimed: {
    verb: "claimJobs",
    from: ["queued", "processing"],
    to: "processing",
    guard: "claimable",
    token: "raised",
    meaning: "a worker takes it under a lease; a lost worker is counted if it was still held",
  },
  abandoned: {
    verb: "claimJobs",
    from: ["processing"],
    to: "failed",
    guard: "claimable",
    token: "raised",
    meaning: "the last lost worker it could afford: `attempts_exhausted`",
  },
  extended: {
    verb: "extendLeases",
    from: ["processing"],
    to: "processing",
    guard: "fence",
    token: "kept",
    meaning: "heartbeat",
  },
  checkpointed: {
    verb: "checkpointJobs",
    from: ["processing"],
    to: "processing",
    guard: "fence",
    token: "kept",
    meaning: "a finished step is kept, so that a retry does not buy it again",
  },
  completed: {
    verb: "completeJobs",
    from: ["processing"],
    to: "done",
    guard: "fence",
    token: "raised",
    meaning: "output, files and charge are committed with it",
  },
  failed: {
    verb: "failJobs",
    from: ["processing"],
    to: "failed",
    guard: "fence",
    token: "raised",
    meaning: "for good, with an error code",
  },
  deferred: {
    verb: "deferJobs",
    from: ["processing"],
    to: "processing",
    guard: "fence",
    token: "raised",
    meaning: "tried again later; counts as a failure if the provider failed",
  },
  released: {
    verb: "releaseJobs",
    from: ["processing"],
    to: "processing",
    guard: "fence",
    token: "raised",
    meaning: "given back unharmed, at the head of its line; costs nothing",
  },
  lost: {
    verb: "expireJobs",
    from: ["processing"],
    to: "processing",
    guard: "lost",
    token: "raised",
    meaning:
      "its worker vanished and no other claimed it: taken back to the head of its line, where its waiting begins",
  },
  expired: {
    verb: "expireJobs",
    from: ["queued", "processing"],
    to: "failed",
    guard: "overdue",
    token: "raised",
    meaning: "waited or ran too long: `queue_timeout`, `job_timeout`",
  },
  canceled: {
    verb: "cancelJobs",
    from: ["queued", "processing"],
    to: "failed",
    guard: "none",
    token: "raised",
    meaning: "by the operator: `canceled_by_operator`; a worker that has it loses its claim",
  },
  erased: {
    verb: "eraseJobs",
    from: ["done", "failed"],
    to: "same",
    guard: "finished",
    token: "kept",
    meaning: "its retained data is deleted, on request or by age; what remains never changes again",
  },
} as const satisfies Record<string, JobTransition>

export type JobEventName = keyof typeof jobTransitions

/** An event with what it carries, to be applied at a store time. */
export type JobEvent =
  | { readonly event: "claimed"; readonly leaseDurationMs: number }
  | { readonly event: "abandoned" }
  | { readonly event: "extended"; readonly token: number; readonly leaseDurationMs: number }
  | { readonly event: "checkpointed"; readonly token: number }
  | { readonly event: "completed"; readonly token: number }
  | { readonly event: "failed"; readonly token: number; readonly errorCode: ErrorCode }
  | { readonly event: "deferred"; readonly token: number; readonly delayMs: number; readonly countsAsFailure: boolean }
  | { readonly event: "released"; readonly token: number; readonly createdAt: number }
  | { readonly event: "lost"; readonly createdAt: number }
  | { readonly event: "expired" }
  | { readonly event: "canceled" }
  | { readonly event: "erased" }

/** The state a job is created in. What is to begin later waits from then on: the delay is none of its waiting. */
export const created = (now: number, limits: JobLimits, delayMs = 0): JobState => ({
  queueLimitMs: limits.queueLimitMs,
  runLimitMs: limits.runLimitMs,
  status: "queued",
  token: 0,
  held: false,
  claimableAt: now + delayMs,
  deadlineAt: now + delayMs + limits.queueLimitMs,
  phaseStartedAt: now + delayMs,
  ranMs: 0,
  waitedMs: 0,
  attempts: 0,
  failures: 0,
  lostWorkers: 0,
  errorCode: null,
  finishedAt: null,
})

/** How the sweep ends the waiting or the running of an overdue job. */
export const overdueEvent = (job: JobState & { readonly createdAt: number }, now: number): JobEvent =>
  isLost(job, now) ? { event: "lost", createdAt: job.createdAt } : { event: "expired" }

/** The job after the event, or `undefined` where the table forbids the move. The reference every store is compared with. */
export const applyEvent = (job: JobState, event: JobEvent, now: number): JobState | undefined => {
  const rule = jobTransitions[event.event]
  if (!(rule.from as ReadonlyArray<string>).includes(job.status) || !guardHolds(job, event, now)) return undefined
  switch (event.event) {
    case "claimed":
      return claim(job, now, event.leaseDurationMs)
    case "abandoned":
      return finish(withoutWorker(job), "failed", "attempts_exhausted", now)
    case "extended":
      return extend(job, now, event.leaseDurationMs)
    case "completed":
      return finish(job, "done", null, now)
    case "failed":
      return finish(job, "failed", event.errorCode, now)
    case "deferred":
      return wait({ ...job, failures: job.failures + (event.countsAsFailure ? 1 : 0) }, now, now + event.delayMs)
    case "released":
      return wait(job, now, event.createdAt)
    case "lost":
      return wait(withoutWorker(job), now, event.createdAt)
    case "expired":
      return finish(job, "failed", overdueCode(job), now)
    case "canceled":
      return finish(job, "failed", "canceled_by_operator", now)
    case "checkpointed":
    case "erased":
      return job
  }
}

const guardHolds = (job: JobState, event: JobEvent, now: number): boolean => {
  switch (jobTransitions[event.event].guard) {
    case "fence":
      return "token" in event && holdsClaim(job, event.token)
    case "claimable":
      return isClaimable(job, now) && (event.event !== "abandoned" || lostTooMany(job, 1))
    case "overdue":
      return isOverdue(job, now) && !isLost(job, now)
    case "lost":
      return isLost(job, now)
    case "finished":
    case "none":
      return true // `from` says it all
  }
}

/** Ends a claim whose worker vanished; the rest of the state is the caller's. */
const withoutWorker = (job: JobState): JobState => ({ ...job, lostWorkers: job.lostWorkers + (job.held ? 1 : 0) })

/**
 * Ends the present phase at `now`. Time under lease counts as running. A held job never waits: the time from its lease's end
 * until somebody notices counts as neither, because a clock that jumped looks the same.
 */
const endPhase = (job: JobState, now: number): Pick<JobState, "ranMs" | "waitedMs"> => {
  const startedAt = job.phaseStartedAt ?? now
  if (!job.held) return { ranMs: job.ranMs, waitedMs: job.waitedMs + Math.max(0, now - startedAt) }
  const heldUntil = Math.max(startedAt, Math.min(now, job.claimableAt ?? now))
  return {
    ranMs: job.ranMs + (heldUntil - startedAt),
    waitedMs: job.waitedMs,
  }
}

/** A lease that had ended begins anew: what passed since its end is not running time. */
const extend = (job: JobState, now: number, leaseDurationMs: number): JobState => {
  const startedAt = job.phaseStartedAt ?? now
  if (now <= (job.claimableAt ?? now)) return { ...job, ...leaseAt(job, startedAt, now, leaseDurationMs) }
  const phase = endPhase(job, now)
  return { ...job, ...phase, phaseStartedAt: now, ...leaseAt({ ...job, ...phase }, now, now, leaseDurationMs) }
}

const claim = (job: JobState, now: number, leaseDurationMs: number): JobState => {
  const phase = endPhase(job, now)
  return {
    ...job,
    ...phase,
    ...leaseAt({ ...job, ...phase }, now, now, leaseDurationMs),
    status: "processing",
    token: job.token + 1,
    held: true,
    phaseStartedAt: now,
    attempts: job.attempts + 1,
    lostWorkers: withoutWorker(job).lostWorkers,
  }
}

const wait = (job: JobState, now: number, claimableAt: number): JobState => {
  const phase = endPhase(job, now)
  return {
    ...job,
    ...phase,
    token: job.token + 1,
    held: false,
    claimableAt,
    deadlineAt: now + queueBudgetMs({ ...job, ...phase }),
    phaseStartedAt: now,
  }
}

const finish = (job: JobState, status: "done" | "failed", errorCode: ErrorCode | null, now: number): JobState => ({
  ...job,
  ...endPhase(job, now),
  status,
  token: job.token + 1,
  held: false,
  claimableAt: null,
  deadlineAt: null,
  phaseStartedAt: null,
  errorCode,
  finishedAt: now,
})
