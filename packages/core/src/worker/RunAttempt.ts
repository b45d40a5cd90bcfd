import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { isBuiltInErrorCode } from "../domain/ErrorCode.ts"
import { unknownName } from "../domain/knownNames.ts"
import { readSafely } from "../domain/realms.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { type AttemptError, AttemptFailed, type AttemptResult } from "../kinds/AttemptContext.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { KindBug } from "../kinds/KindBug.ts"
import { BlobStore, JobStore } from "../ports/index.ts"
import type { Attempt } from "./Attempt.ts"
import { attemptContexts } from "./AttemptContext.ts"
import { AttemptMeter, type AttemptOutcome } from "./AttemptMeter.ts"
import { type AttemptEnd, attemptEnd, describe, kindBugIn } from "./AttemptEnd.ts"
import { makeParentCheck } from "./canceledParents.ts"
import { checkResult } from "./checkResult.ts"
import type { Slots } from "./Slots.ts"
import { endWriter, type Settled, type Written } from "./writeEnd.ts"

/** Runs an effect in its own fiber, because the current one may already be interrupted. */
const inOwnFiber = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((parent) =>
    Effect.callback<A, E>((resume) => {
      Effect.runForkWith(parent.context as Context.Context<R>)(effect).addObserver(resume)
    }),
  )

/**
 * Returns the function that runs one attempt of a worker: it runs the kind, checks the result, classifies the end, writes it and
 * cleans up. An attempt runs uninterruptibly in one fiber; only the kind's work in it can be interrupted, when the lease is lost
 * or the worker stops. The end is always written, unless the lease is lost.
 */
export const attemptRunner = Effect.fnUntraced(function* (slots: Slots) {
  const { isolation, watch } = slots
  const { attempts, defaultCurrency } = yield* EngineConfig
  const contextOf = yield* attemptContexts(watch)
  const writeEnd = yield* endWriter(watch)
  const removeOrphans = yield* orphanRemover
  const meter = yield* AttemptMeter
  const checkParent = yield* makeParentCheck

  /** Runs the kind. An exception is a defect. */
  const work = (attempt: Attempt): Effect.Effect<AttemptResult, AttemptError> =>
    Effect.suspend(() => {
      isolation.begin(attempt.isolated, watch.now())
      attempt.hasBegun = true
      // It was valid when the job was accepted, for this version of the kind or another.
      const request = attempt.kind.reader.readStored(attempt.claim.job.request)
      return Result.isSuccess(request)
        ? Effect.andThen(
            checkParent(attempt.claim),
            Effect.suspend(() => inTime(attempt.kind, attempt.kind.run(contextOf(attempt, request.success)))),
          )
        : notReadable
    })

  const begin = (attempt: Attempt) => {
    const { isolated } = attempt
    const rate = slots.rateOf(attempt)
    const started = rate === undefined ? work(attempt) : Effect.andThen(rate.take(attempt), work(attempt))
    return isolated === undefined ? started : Effect.andThen(isolated.waitUntilQuiet, started)
  }

  /** Cleans up after an attempt whose result is not stored. */
  const cleanUp = Effect.fnUntraced(function* (attempt: Attempt, written: Written): Effect.fn.Return<Settled> {
    const stalledMs = written === "lapsed" ? watch.frozenMs(attempt.lease) : 0
    if (stalledMs > 0) yield* logStall(attempt, stalledMs, attempts.maxLostWorkers)
    if (attempt.hasWritten) yield* inOwnFiber(removeOrphans(attempt))
    return stalledMs > 0 ? "stalled" : written
  })

  return Effect.fnUntraced(function* (attempt: Attempt): Effect.fn.Return<EndedAttempt> {
    attempt.runsIn(yield* currentFiber)
    const { job } = attempt.claim
    const beganAt = watch.now()
    meter?.began(job)
    const exit = yield* Effect.exit(Effect.interruptible(begin(attempt)))
    if (attempt.hasBegun) isolation.end()
    attempt.reports?.end()
    const end =
      readSafely(() => readEnd(attempt, exit, defaultCurrency)) ?? endOfFailure(attempt.kind, Cause.die(unreadable()))
    if (end.log !== undefined) yield* end.log
    if (end._tag === "Unavailable" && end.what === "BlobUnavailable") slots.withhold(attempt)
    const durationMs = watch.now() - beganAt
    const written = yield* writeEnd(attempt, end, { error: end.error, durationMs })
    const settled = written === "committed" ? written : yield* cleanUp(attempt, written)
    if (settled !== "committed") slots.settle(attempt, settled)
    const outcome = outcomeOf(end, settled)
    meter?.ended(job, outcome, watch.now() - beganAt, chargeOf(end, settled))
    yield* slots.announceRoom
    return { outcome, error: end.error }
  })
})

/** How an attempt ended, and what it threw. */
export interface EndedAttempt {
  readonly outcome: AttemptOutcome
  readonly error: unknown
}

const outcomeOf = (end: AttemptEnd, settled: Settled): AttemptOutcome => {
  if (settled === "committed") return "done"
  if (settled !== "written") return settled === "stalled" ? "stalled" : "lease_lost"
  if (end._tag === "Released") return "released"
  return end._tag === "Unavailable" || end._tag === "Postponed" || end._tag === "Parked" ? "deferred" : "failed"
}

const chargeOf = (end: AttemptEnd, settled: Settled) =>
  end._tag === "Completed" && settled === "committed" ? end.completion.charge : null

const currentFiber = Effect.withFiber((fiber) => Effect.succeed(fiber))

/** Ends an attempt that takes longer than its kind allows. Kinds without such a limit need no fiber for it. */
const inTime = <A>(
  { limits: { attemptTimeoutMs } }: JobKind,
  run: Effect.Effect<A, AttemptError>,
): Effect.Effect<A, AttemptError> =>
  attemptTimeoutMs === undefined
    ? run
    : Effect.timeoutOrElse(run, {
        duration: attemptTimeoutMs,
        orElse: () =>
          new AttemptFailed({
            errorCode: "job_timeout",
            retry: true,
            detail: `the attempt took longer than attemptTimeoutMs, ${attemptTimeoutMs} ms`,
          }),
      })

const notReadable = Effect.suspend(() =>
  Effect.fail(
    new AttemptFailed({ errorCode: "internal_error", retry: false, detail: "the stored request cannot be decoded" }),
  ),
)

type LoggedEnd = AttemptEnd & {
  /** Logs why there is no result, or what is wrong with it. */
  readonly log?: Effect.Effect<void>
  /** What the attempt threw. */
  readonly error?: unknown
}

/**
 * Classifies the end of the work. If the lease is lost or the worker stops, that decides, whatever the work returned. Otherwise,
 * the work's own result decides.
 */
const readEnd = (
  attempt: Attempt,
  exit: Exit.Exit<AttemptResult, AttemptError>,
  defaultCurrency: string,
): LoggedEnd => {
  if (attempt.lease.isLost) return { _tag: "LeaseLost" }
  if (attempt.isStopping && Exit.isFailure(exit)) return { _tag: "Released" }
  if (attempt.isParked) return { _tag: "Parked" }
  const bug = attempt.nameBug
  if (Exit.isFailure(exit))
    return endOfFailure(attempt.kind, bug === undefined ? exit.cause : Cause.combine(exit.cause, Cause.die(bug)))
  if (bug !== undefined) return endOfFailure(attempt.kind, Cause.die(bug))
  const checked = checkSafely(attempt, exit.value, defaultCurrency)
  if (Exit.isFailure(checked)) return endOfFailure(attempt.kind, checked.cause)
  const { beyondMaximum, completion, uncharged } = checked.value
  return {
    _tag: "Completed",
    completion,
    ...(uncharged.length > 0 && { log: logUncharged(attempt, uncharged) }),
    ...(beyondMaximum.length > 0 && { log: logBeyondMaximum(attempt, beyondMaximum) }),
  }
}

/** Reading the result may throw, because it comes from code outside kiln. */
const checkSafely = ({ claim, kind }: Attempt, result: AttemptResult, defaultCurrency: string) => {
  try {
    const checked = checkResult(kind, claim, result, defaultCurrency)
    if (!("problem" in checked)) return Exit.succeed(checked)
    return checked.problem instanceof KindBug ? Exit.die(checked.problem) : Exit.fail(checked.problem)
  } catch (error) {
    return Exit.die(error)
  }
}

/** Code can throw what nothing can look into, such as a revoked proxy. Its job must end nevertheless. */
const unreadable = () => new TypeError("the attempt threw a value that cannot be read")

const endOfFailure = (kind: JobKind, cause: Cause.Cause<AttemptError>): LoggedEnd => {
  const thrown = attemptEnd(cause)
  const undeclared = thrown._tag === "Failed" ? undeclaredCode(kind, thrown.failure.errorCode) : undefined
  if (undeclared !== undefined) return endOfFailure(kind, Cause.die(undeclared))
  const end = { ...thrown, error: Cause.squash(cause) }
  const bug = kindBugIn(cause)
  if (bug !== undefined)
    return {
      ...end,
      log: Effect.logError(`the job failed because of a bug in its kind ${kind.name}`, `${bug.name}: ${bug.text}`),
    }
  if (end._tag === "Postponed") return { ...end, log: Effect.logDebug("a provider postponed its call") }
  return { ...end, log: Effect.logWarning("attempt ended without a result", describe(cause)) }
}

/** The bug of failing with an error code that callers cannot know. */
const undeclaredCode = ({ errorCodes, name }: JobKind, code: string): KindBug | undefined =>
  isBuiltInErrorCode(code) || errorCodes.includes(code)
    ? undefined
    : new KindBug(unknownName(`error code "${code}" of ${name}: declare it in errorCodes`, code, errorCodes))

const logUncharged = ({ claim: { job } }: Attempt, meters: ReadonlyArray<string>) =>
  Effect.logError(
    `usage of ${meters.join(", ")} was not charged: the job was accepted with version ${job.price?.version} of the price ${job.price?.name}, which does not name this meter`,
  )

const logBeyondMaximum = ({ claim: { job }, kind }: Attempt, meters: ReadonlyArray<string>) =>
  Effect.logError(
    `${job.id} used more ${meters.join(", ")} than maxUsage of its kind ${kind.name} states; only the maximum was charged`,
  )

/** Logs a blocked event loop. This attempt blocked it, or a concurrent one did. */
const logStall = ({ claim: { job }, isolated, kind }: Attempt, stalledMs: number, maxLostWorkers: number) => {
  const about = `attempt ${job.attempts} of ${job.id} (${kind.name})`
  const blocked = `the event loop past its lease, for ${(stalledMs / 1_000).toFixed(1)} s`
  const counted = `counted as a lost worker, ${job.lostWorkers + 1} of ${maxLostWorkers}`
  return Effect.logError(
    isolated?.wasAlone() === true
      ? `${about} blocked ${blocked}; ${counted}`
      : `${about} or a concurrent attempt blocked ${blocked}; ${counted}. Move synchronous work to a worker thread`,
  )
}

/**
 * Removes blobs of an attempt that no row will ever name. The store decides which ones, because a completion whose answer was
 * lost may be committed. The sweep removes any that remain.
 */
const orphanRemover = Effect.gen(function* () {
  const store = yield* JobStore
  const blobs = yield* BlobStore
  return ({ claim, written }: Attempt) =>
    Effect.gen(function* () {
      const orphans = yield* store.findOrphans(
        written.map((blobKey) => ({ blobKey, jobId: claim.job.id, token: claim.token })),
      )
      // `ahead`: the record has not reached this token, so it belongs to an older copy of the store.
      const own = orphans.filter(({ reason }) => reason !== "ahead")
      yield* Effect.forEach(own, ({ blobKey }) => blobs.remove(blobKey), { discard: true })
    }).pipe(Effect.ignore)
})
