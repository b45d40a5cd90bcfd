import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import { afterFailure } from "../domain/Attempt.ts"
import { type Job, type StoreUnavailable } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobEvents, refOf } from "../engine/JobEvents.ts"
import type { JobEvent, JobRef } from "../engine/JobEvent.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { type Claim, type FencedOutcome, JobStore } from "../ports/index.ts"
import { type AttemptEnd, describe, postponedDelayMs, unavailableDelayMs } from "./AttemptEnd.ts"
import type { HeldLease } from "./HeldLease.ts"
import { retrying } from "./retrying.ts"

/**
 * What the store has of an attempt's end: `committed`, its result; `written`, another end; `blobs_away`, an end because the
 * blob store was unavailable; `lapsed`, nothing, because the lease was lost or the store was unavailable.
 */
type Written = "committed" | "written" | "blobs_away" | "lapsed"

/** Writes the end of an attempt and emits the event of it. */
export const writeEnd = Effect.fnUntraced(function* (
  kind: JobKind,
  claim: Claim,
  lease: HeldLease,
  end: AttemptEnd,
): Effect.fn.Return<Written, never, JobStore | JobEvents> {
  const store = yield* JobStore
  const { attempts, circuit } = yield* EngineConfig
  const { job, token } = claim
  const ref = { jobId: job.id, token }
  const defer = (delayMs: number, countsAsFailure: boolean) =>
    insist(lease, store.deferJobs([{ ...ref, delayMs, countsAsFailure }]))
  switch (end._tag) {
    case "Completed": {
      const commit = yield* Effect.exit(insist(lease, store.completeJobs([end.completion])))
      if (Exit.isSuccess(commit)) {
        if (commit.value === "lapsed") return "lapsed"
        yield* emit(job, { type: "done" })
        return "committed"
      }
      // The store rejects this result, and another attempt would bring one of the same kind.
      yield* Effect.logError("the store rejected a result", describe(commit.cause))
      const failure = { errorCode: "internal_error", retry: false } as const
      return yield* writeEnd(kind, claim, lease, { _tag: "Failed", failure })
    }
    case "LeaseLost":
      yield* Effect.logWarning("lease lost")
      return "lapsed"
    case "Released":
      return yield* insist(lease, store.releaseJobs([ref]))
    case "Unavailable": {
      const deferred = yield* defer(unavailableDelayMs(end.what, job.attempts, attempts, circuit), false)
      return deferred === "written" && end.what === "BlobUnavailable" ? "blobs_away" : deferred
    }
    case "Postponed":
      return yield* defer(postponedDelayMs(end.delayMs, attempts), false)
    case "Failed": {
      const { maxFailures = attempts.maxFailures } = kind.limits
      const after = afterFailure(end.failure, job.failures, { ...attempts, maxFailures }, yield* Random.next)
      if (after.next === "defer") {
        const deferred = yield* defer(after.delayMs, true)
        const { errorCode } = end.failure
        const { delayMs: retryInMs } = after
        if (deferred === "written")
          yield* emit(job, { type: "attempt_failed", attempt: job.attempts, errorCode, retryInMs })
        return deferred
      }
      const failed = yield* insist(lease, store.failJobs([{ ...ref, errorCode: after.errorCode }]))
      if (failed === "written") yield* emit(job, { type: "failed", errorCode: after.errorCode })
      return failed
    }
  }
})

type Write<R> = Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable, R>

/**
 * Retries a write while the store is unavailable and the lease holds. A try whose answer was lost may have succeeded; the
 * store recognizes its repeat, so only the last answer counts.
 */
const insist = <R>(lease: HeldLease, write: Write<R>): Effect.Effect<"written" | "lapsed", never, R> =>
  Effect.raceFirst(Effect.interruptible(write.pipe(Effect.retry(retrying))), Effect.interruptible(lease.lost)).pipe(
    Effect.map(([outcome]) => (outcome === "Written" ? ("written" as const) : ("lapsed" as const))),
    Effect.catch(() => Effect.succeed("lapsed" as const)),
  )

type AttemptEvent = Extract<JobEvent, { readonly type: "done" | "failed" | "attempt_failed" }>
type WithoutRef<Event> = Event extends unknown ? Omit<Event, keyof JobRef> : never

const emit = (job: Job, event: WithoutRef<AttemptEvent>) =>
  Effect.map(JobEvents, (events) => events.emit({ ...refOf(job), ...event }))
