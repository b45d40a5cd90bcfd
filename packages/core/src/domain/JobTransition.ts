import type { ErrorCode } from "./ErrorCode.ts"
import type { JobLimits, JobState, JobStatus } from "./JobState.ts"
import {
  holdsClaim,
  isClaimable,
  isLost,
  isOverdue,
  isPostponed,
  leaseAt,
  lostTooMany,
  overdueCode,
  queueBudgetMs,
} from "./JobState.ts"

/** A legal move of a job. Its key in the table is the event. */
export interface JobTransition {
  /** The method of the `JobStore` port that makes the move. */
  readonly verb: string
  readonly from: ReadonlyArray<JobStatus | "none">
  /** `same` for a move that keeps whatever status the job has. */
  readonly to: JobStatus | "same"
  /**
   * The check in the statement that writes, besides `from`:
   * - `none`: nothing, because the job does not exist yet
   * - `fence`: the job is held, and the caller's token is the job's
   * - `claimable`: `claimableAt` has passed and the deadline has not
   * - `overdue`: the deadline has passed, and the job is not `lost`. `postponed`: and its new one has not
   * - `lost`: the deadline has passed, the job is held, and the run limit did not end its lease
   * - `waiting`: nobody holds the job, and `claimableAt` has not passed
   * - `pending`: nobody holds the job, and the deadline has not passed
   * - `unfinished`, `finished`: nothing more
   */
  readonly guard:
    | "none"
    | "fence"
    | "claimable"
    | "overdue"
    | "lost"
    | "waiting"
    | "pending"
    | "unfinished"
    | "finished"
  /** Whether the move raises the fencing token. */
  readonly token: "kept" | "raised"
  readonly meaning: string
}

/** The table of every move a job can make. Stores, docs and tests follow it. */
export const jobTransitions = {
  created: {
    verb: "createJobs",
    from: ["none"],
    to: "queued",
    guard: "none",
    token: "kept",
    meaning: "accepted, together with its idempotency key, upload and price",
  },
  claimed: {
    verb: "claimJobs",
    from: ["queued", "processing"],
    to: "processing",
    guard: "claimable",
    token: "raised",
    meaning: "a worker takes the job under a lease; if the job was still held, its previous worker counts as lost",
  },
  abandoned: {
    verb: "claimJobs",
    from: ["processing"],
    to: "failed",
    guard: "claimable",
    token: "raised",
    meaning: "a claim finds that the job has lost too many workers: `attempts_exhausted`",
  },
  extended: {
    verb: "extendLeases",
    from: ["processing"],
    to: "processing",
    guard: "fence",
    token: "kept",
    meaning: "a heartbeat renews the lease",
  },
  checkpointed: {
    verb: "checkpointJobs",
    from: ["processing"],
    to: "processing",
    guard: "fence",
    token: "kept",
    meaning: "the result of a finished step is kept, so a retry does not pay for it again",
  },
  completed: {
    verb: "completeJobs",
    from: ["processing"],
    to: "done",
    guard: "fence",
    token: "raised",
    meaning: "output, files and charge are committed in the same step",
  },
  failed: {
    verb: "failJobs",
    from: ["processing"],
    to: "failed",
    guard: "fence",
    token: "raised",
    meaning: "permanently, with an error code",
  },
  deferred: {
    verb: "deferJobs",
    from: ["processing"],
    to: "processing",
    guard: "fence",
    token: "raised",
    meaning: "retried later; counts as a failure if the provider failed",
  },
  parked: {
    verb: "deferJobs",
    from: ["processing"],
    to: "processing",
    guard: "fence",
    token: "raised",
    meaning: "waits for children, a signal or a point in time; the attempt does not count",
  },
  woken: {
    verb: "signalJobs",
    from: ["processing"],
    to: "processing",
    guard: "waiting",
    token: "kept",
    meaning: "the event of a parked job has come: a signal, or the end of the last child, in the step that ends it",
  },
  rescheduled: {
    verb: "rescheduleJobs",
    from: ["queued", "processing"],
    to: "same",
    guard: "pending",
    token: "kept",
    meaning:
      "by the operator, or by a later submission of a unique job: may start at another time; the time until then counts as neither waiting nor running",
  },
  replaced: {
    verb: "createJobs",
    from: ["queued"],
    to: "queued",
    guard: "pending",
    token: "kept",
    meaning:
      "a later submission of a unique job gives it another request before its first attempt; it begins to wait anew",
  },
  released: {
    verb: "releaseJobs",
    from: ["processing"],
    to: "processing",
    guard: "fence",
    token: "raised",
    meaning: "returned to the head of its queue, for example on shutdown; no budget is charged",
  },
  lost: {
    verb: "expireJobs",
    from: ["processing"],
    to: "processing",
    guard: "lost",
    token: "raised",
    meaning: "its worker was lost and no other claimed it; returned to the head of its queue, where it starts to wait",
  },
  postponed: {
    verb: "expireJobs",
    from: ["queued"],
    to: "queued",
    guard: "overdue",
    token: "kept",
    meaning: "its last prerequisite has not finished or did so later: its queue limit counts from then on",
  },
  expired: {
    verb: "expireJobs",
    from: ["queued", "processing"],
    to: "failed",
    guard: "overdue",
    token: "raised",
    meaning: "waited or ran too long: `queue_timeout` or `job_timeout`",
  },
  canceled: {
    verb: "cancelJobs",
    from: ["queued", "processing"],
    to: "failed",
    guard: "unfinished",
    token: "raised",
    meaning: "by the operator: `canceled_by_operator`; a worker that holds the job loses its claim",
  },
  refused: {
    verb: "completeJobs",
    from: ["queued"],
    to: "failed",
    guard: "unfinished",
    token: "raised",
    meaning:
      "created by the completion of another job, in the same step, although its price or a spend cap refuses it: `not_accepted`",
  },
  erased: {
    verb: "eraseJobs",
    from: ["done", "failed"],
    to: "same",
    guard: "finished",
    token: "kept",
    meaning: "its retained data is deleted, on request or by age; the rest never changes again",
  },
} as const satisfies Record<TransitionEvent["event"] | "created", JobTransition>

export type JobEventName = keyof typeof jobTransitions

/**
 * An event of the transition table with its values. One without a row in the table, or without a case below, does not compile.
 */
export type TransitionEvent =
  | { readonly event: "claimed"; readonly leaseDurationMs: number }
  | { readonly event: "abandoned" }
  | { readonly event: "extended"; readonly token: number; readonly leaseDurationMs: number }
  | { readonly event: "checkpointed"; readonly token: number }
  | { readonly event: "completed"; readonly token: number }
  | { readonly event: "failed"; readonly token: number; readonly errorCode: ErrorCode }
  | { readonly event: "deferred"; readonly token: number; readonly delayMs: number; readonly countsAsFailure: boolean }
  /** `until` is not before now. `isCharged`: the time until then counts as waiting. */
  | { readonly event: "parked"; readonly token: number; readonly until: number; readonly isCharged: boolean }
  | { readonly event: "woken" }
  /** `at` is not before now. */
  | { readonly event: "rescheduled"; readonly at: number }
  /** `at` is the start of the new request; before now only for a job that was claimable already. */
  | { readonly event: "replaced"; readonly limits: JobLimits; readonly at: number }
  | { readonly event: "released"; readonly token: number; readonly createdAt: number }
  | { readonly event: "lost"; readonly createdAt: number }
  /** `since` is as `waitsSince` returns it. */
  | { readonly event: "postponed"; readonly since: number }
  | { readonly event: "expired" }
  | { readonly event: "canceled" }
  | { readonly event: "refused" }
  | { readonly event: "erased" }

/** Returns the job after the event, or `undefined` if the table forbids the move. Every store is compared with this function. */
export const applyEvent = (job: JobState, event: TransitionEvent, now: number): JobState | undefined => {
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
    case "parked":
      return park(job, now, event.until, event.isCharged)
    case "woken":
      return beginToWaitAt({ ...job, ...endPhase(job, now) }, now)
    case "rescheduled":
      return beginToWaitAt({ ...job, ...endPhase(job, now) }, event.at)
    case "replaced": {
      const { queueLimitMs, runLimitMs } = event.limits
      return beginToWaitAt({ ...job, queueLimitMs, runLimitMs, waitedMs: 0 }, event.at)
    }
    case "released":
      return wait(job, now, event.createdAt)
    case "lost":
      return wait(withoutWorker(job), now, event.createdAt)
    case "postponed":
      return beginToWaitAt({ ...job, waitedMs: 0 }, event.since)
    case "expired":
      return finish(job, "failed", overdueCode(job), now)
    case "canceled":
      return finish(job, "failed", "canceled_by_operator", now)
    case "refused":
      return finish(job, "failed", "not_accepted", now)
    case "checkpointed":
    case "erased":
      return job
    default:
      return event satisfies never
  }
}

const guardHolds = (job: JobState, event: TransitionEvent, now: number): boolean => {
  switch (jobTransitions[event.event].guard) {
    case "fence":
      return "token" in event && holdsClaim(job, event.token)
    case "claimable":
      return isClaimable(job, now) && (event.event !== "abandoned" || lostTooMany(job, 1))
    case "overdue":
      if (event.event === "postponed" && !isPostponed(job, event.since, now)) return false
      return isOverdue(job, now) && !isLost(job, now)
    case "lost":
      return isLost(job, now)
    case "waiting":
      return !job.held && job.claimableAt !== null && job.claimableAt > now
    case "pending":
      return !job.held && !isOverdue(job, now)
    case "unfinished":
    case "finished":
      return true // checked by `from`
  }
}

/** Counts the worker that holds the job, if any, as lost. */
const withoutWorker = (job: JobState): JobState => ({ ...job, lostWorkers: job.lostWorkers + (job.held ? 1 : 0) })

/**
 * Ends the current phase at `now`. Time under lease counts as running. A held job never waits: the time between the end of its
 * lease and the next claim or sweep counts as neither, because a clock that jumped looks the same.
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

/** Renews the lease. If it had already ended, the time since then is not running time. */
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

const park = (job: JobState, now: number, until: number, isCharged: boolean): JobState => {
  const waiting = wait({ ...job, attempts: job.attempts - 1 }, now, until)
  return isCharged ? waiting : beginToWaitAt(waiting, until)
}

/** The time until then counts as neither running nor waiting, as with a delayed job. */
const beginToWaitAt = (job: JobState, at: number): JobState => ({
  ...job,
  claimableAt: at,
  deadlineAt: at + queueBudgetMs(job),
  phaseStartedAt: at,
})

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
