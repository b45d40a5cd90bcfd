import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Charge, Job } from "../../domain/index.ts"
import { JobEvents } from "../../engine/JobEvents.ts"
import { installedKinds } from "../../kinds/installedKinds.ts"
import type { MetricFamilies, MetricFamily } from "./MetricFamilies.ts"

/**
 * The outcome of an attempt. `failed`: with an error, whether or not another attempt follows. `deferred`: something was unavailable.
 * `released`: the worker stopped or a switch was turned off. `ended`: the job was canceled or took too long. `lease_lost`: nothing could be
 * written. `stalled`: the same, because the process was frozen.
 */
export type AttemptOutcome = "done" | "failed" | "deferred" | "released" | "ended" | "lease_lost" | "stalled"

/** Measures the attempts of this process. It is called while jobs run, so it must be quick, and must not throw. */
export interface AttemptMeter {
  /** An attempt begins. */
  readonly began: (job: Job) => void
  /**
   * The first attempt of a job begins its work. An attempt after a wait has the same number. The job is as the claim returned it, so
   * `waitedMs` includes the wait that has just ended.
   */
  readonly beganFirst: (job: Job) => void
  /** An attempt has ended, and its end is written. `charge` is set if it completed a live job. */
  readonly ended: (job: Job, outcome: AttemptOutcome, durationMs: number, charge: Charge | null) => void
}

/** The meter of this process; nothing is measured without one. */
export const AttemptMeter = Context.Reference<AttemptMeter | undefined>("@kiln/core/worker/AttemptMeter", {
  defaultValue: () => undefined,
})

/** The metrics of jobs and attempts. */
export interface JobMetrics {
  /** Measures the attempts of this process. */
  readonly attemptMeter: AttemptMeter
  /** Counts jobs until the scope closes. */
  readonly countJobs: Effect.Effect<void, never, JobEvents | Scope.Scope>
}

export const jobMetrics = (families: MetricFamilies): JobMetrics => {
  const attempts = families.counter(
    "kiln_attempts_started_total",
    "Attempts that this process has started",
    "kind",
    "mode",
  )
  const lost = families.counter(
    "kiln_leases_lost_total",
    "Attempts that lost their lease. stalled: this process was blocked or suspended",
    "kind",
    "mode",
    "reason",
  )
  return { attemptMeter: attemptMeter(families, attempts, lost), countJobs: countJobs(families, attempts, lost) }
}

const attemptMeter = (families: MetricFamilies, attempts: MetricFamily, lost: MetricFamily): AttemptMeter => {
  const waiting = families.histogram(
    "kiln_job_waiting_seconds",
    "Time from when a job could start until its first attempt",
    [0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400],
    "kind",
    "mode",
  )
  const running = families.histogram(
    "kiln_attempt_duration_seconds",
    "Duration of attempts by outcome: done, failed, deferred, released, ended, lease_lost or stalled",
    [0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800],
    "kind",
    "mode",
    "outcome",
  )
  const charges = families.counter("kiln_charges_total", "Charges that this process has recorded", "kind", "currency")
  const amounts = families.counter(
    "kiln_charged_amount_total",
    "Sum of the recorded charges in units of the currency. Approximate; the ledger is exact",
    "kind",
    "currency",
  )
  return {
    began: ({ kind, mode }) => attempts.record([kind, mode], 1),
    beganFirst: ({ kind, mode, waitedMs }) => waiting.record([kind, mode], waitedMs / 1_000),
    ended: ({ kind, mode }, outcome, durationMs, charge) => {
      running.record([kind, mode, outcome], durationMs / 1_000)
      if (outcome === "lease_lost" || outcome === "stalled") lost.record([kind, mode, outcome], 1)
      if (charge === null) return
      charges.record([kind, charge.currency], 1)
      amounts.record([kind, charge.currency], Number(charge.amount))
    },
  }
}

const countJobs = (families: MetricFamilies, attempts: MetricFamily, lost: MetricFamily): JobMetrics["countJobs"] => {
  const created = families.counter(
    "kiln_jobs_created_total",
    "Jobs that this process has accepted. Repeated requests are not counted",
    "kind",
    "mode",
  )
  const completed = families.counter(
    "kiln_jobs_completed_total",
    "Jobs that this process has completed",
    "kind",
    "mode",
  )
  const failed = families.counter(
    "kiln_jobs_failed_total",
    "Jobs that failed for good in this process, by error code. Includes deadlines and cancellations",
    "kind",
    "mode",
    "error_code",
  )
  const retried = families.counter(
    "kiln_attempts_retried_total",
    "Failed attempts that another attempt follows, by error code",
    "kind",
    "mode",
    "error_code",
  )
  return Effect.gen(function* () {
    const events = yield* JobEvents
    // A series begins at 0, so that its first job is visible as an increase.
    for (const { name } of yield* installedKinds)
      for (const mode of ["live", "sandbox"]) {
        for (const family of [created, completed, attempts]) family.record([name, mode], 0)
        for (const reason of ["lease_lost", "stalled"]) lost.record([name, mode, reason], 0)
      }
    yield* Effect.acquireRelease(
      Effect.sync(() =>
        events.listen((event) => {
          if (event.type === "queued") created.record([event.kind, event.mode], 1)
          else if (event.type === "completed") completed.record([event.kind, event.mode], 1)
          else if (event.type === "failed") failed.record([event.kind, event.mode, event.errorCode], 1)
          else if (event.type === "attempt_failed") retried.record([event.kind, event.mode, event.errorCode], 1)
        }),
      ),
      (stopListening) => Effect.sync(stopListening),
    )
  })
}
