import { Cause, Effect, Exit, Random, Schedule } from "effect"
import { afterFailure, chargeFor, type Job, type StoreUnavailable } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobSignals } from "../engine/JobSignals.ts"
import type { AttemptResult, JobKind } from "../kinds/JobKind.ts"
import { BlobStore, type Claim, type FencedOutcome, JobStore } from "../ports/index.ts"
import { attemptContext } from "./AttemptContext.ts"
import { type AttemptEnd, attemptEnd } from "./AttemptEnd.ts"
import type { HeldLease } from "./HeldLease.ts"

/**
 * One attempt, in named steps: build the context, run the kind, settle. It ends early when the
 * claim is lost or the worker stops; how it ended is always written, unless the claim is gone.
 */
export const runAttempt = Effect.fnUntraced(function* (kind: JobKind, claim: Claim, lease: HeldLease) {
  const written: Array<string> = []
  const work = Effect.flatMap(attemptContext(kind, claim, written), (context) => kind.run(context))
  yield* Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(restore(Effect.raceFirst(work, lease.lost)))
      const committed = yield* Exit.isSuccess(exit)
        ? insist(lease, complete(claim, exit.value))
        : settle(claim, lease, attemptEnd(exit.cause), exit.cause)
      if (!committed) yield* removeOrphans(claim, written)
    }),
  )
}, (effect, _kind, claim) => Effect.annotateLogs(effect, { jobId: claim.job.id, attempt: claim.job.attempts }))

type Write<R> = Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable, R>

const retrying = Schedule.jittered(Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")]))

/** Writes how the attempt ended, again and again while the store is out of reach and the lease still holds. Whether it was written. */
const insist = <R>(lease: HeldLease, write: Write<R>): Effect.Effect<boolean, never, R> =>
  Effect.raceFirst(Effect.interruptible(write.pipe(Effect.retry(retrying))), Effect.interruptible(lease.lost)).pipe(
    Effect.map(([outcome]) => outcome === "Written"),
    Effect.catch(() => Effect.succeed(false)),
  )

const complete = ({ job, token }: Claim, result: AttemptResult): Write<JobStore | JobSignals> =>
  Effect.gen(function* () {
    const store = yield* JobStore
    const outcomes = yield* store.completeJobs([
      {
        jobId: job.id,
        token,
        output: result.output,
        files: result.files,
        warningCode: result.warningCode ?? null,
        charge: job.price === null ? null : chargeFor(job.price, result.usage),
      },
    ])
    yield* signal(job)
    return outcomes
  })

const signal = (job: Job) => Effect.flatMap(JobSignals, (signals) => signals.finished(job.id))

/** Writes the end of an attempt without a result. Never commits a result, so it always answers `false`. */
const settle = Effect.fnUntraced(function* (claim: Claim, lease: HeldLease, end: AttemptEnd, cause: Cause.Cause<unknown>) {
  const store = yield* JobStore
  const { attempts } = yield* EngineConfig
  const { job, token } = claim
  const ref = { jobId: job.id, token }
  switch (end._tag) {
    case "LeaseLost":
      yield* Effect.logWarning("lease lost")
      return false
    case "Released":
      yield* insist(lease, store.releaseJobs([ref]))
      return false
    case "Postponed": {
      yield* Effect.logWarning("a store was out of reach", Cause.pretty(cause))
      const after = afterFailure(retryable, Math.min(job.attempts - 1, 16), { ...attempts, maxFailures: Infinity }, 1)
      if (after.next === "defer")
        yield* insist(lease, store.deferJobs([{ ...ref, delayMs: after.delayMs, countsAsFailure: false }]))
      return false
    }
    case "Failed": {
      // A defect's stack helps; a provider's failure says what it has to say in its detail.
      yield* Effect.logWarning("attempt failed", end.failure.errorCode, end.detail === "defect" ? Cause.pretty(cause) : end.detail)
      const after = afterFailure(end.failure, job.failures, attempts, yield* Random.next)
      if (after.next === "defer") {
        yield* insist(lease, store.deferJobs([{ ...ref, delayMs: after.delayMs, countsAsFailure: true }]))
      } else if (yield* insist(lease, store.failJobs([{ ...ref, errorCode: after.errorCode }]))) {
        yield* signal(job)
      }
      return false
    }
  }
})

const retryable = { errorCode: "internal_error", retry: true } as const

/**
 * Removes what this attempt wrote and nobody will ever commit. The store is asked, not the
 * attempt: a completion whose answer was lost may well be committed. What is left behind, the
 * sweep takes.
 */
const removeOrphans = (claim: Claim, written: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    if (written.length === 0) return
    const store = yield* JobStore
    const blobs = yield* BlobStore
    const orphans = yield* store.findOrphans(
      written.map((blobKey) => ({ blobKey, jobId: claim.job.id, token: claim.token })),
    )
    yield* Effect.forEach(orphans, (blobKey) => blobs.remove(blobKey), { discard: true })
  }).pipe(Effect.ignore)
