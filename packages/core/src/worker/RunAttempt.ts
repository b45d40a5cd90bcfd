import { Cause, Effect, Exit, Option, Random } from "effect"
import { afterFailure, type AttemptLimits } from "../domain/Attempt.ts"
import {
  type Charge,
  chargeFor,
  isError,
  type Job,
  type JsonObject,
  limits,
  type StoreUnavailable,
  uncoveredMeters,
  warningCodes,
} from "../domain/index.ts"
import type { CircuitLimits } from "../domain/Circuit.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobEvents, refOf } from "../engine/JobEvents.ts"
import type { JobEvent, JobRef } from "../engine/JobEvent.ts"
import { asJsonObject } from "../kinds/asJson.ts"
import { type AttemptError, AttemptFailed, type AttemptResult } from "../kinds/AttemptContext.ts"
import { type JobKind } from "../kinds/JobKind.ts"
import { Misuse } from "../kinds/Misuse.ts"
import { BlobStore, type Claim, type Completion, type FencedOutcome, JobStore } from "../ports/index.ts"
import { attemptContext } from "./AttemptContext.ts"
import { type AttemptEnd, attemptEnd, misuseIn } from "./AttemptEnd.ts"
import type { HeldLease } from "./HeldLease.ts"
import type { Turn } from "./LastChance.ts"
import { retrying } from "./retrying.ts"
import { UsedNames } from "./UsedNames.ts"

/**
 * What was written of an attempt's end: its result; something else; that blobs were out of reach; or nothing, because the
 * claim was gone or the store away (`lapsed`), or because this process stood still past the lease (`stalled`).
 */
export type Settled = "committed" | "written" | "blobs_away" | "lapsed" | "stalled"

/**
 * One attempt, in named steps: build the context, run the kind, settle. It ends early when the
 * claim is lost or the worker stops; how it ended is always written, unless the claim is gone.
 */
export const runAttempt = Effect.fnUntraced(
  function* (kind: JobKind, claim: Claim, lease: HeldLease, turn: Turn) {
    const notes = { written: new Array<string>(), names: new UsedNames() }
    const work = attemptContext(kind, claim, lease, notes).pipe(
      Effect.flatMap((context) => turn.take(Effect.ensuring(kind.run(context), notes.names.check))),
      Effect.flatMap((result) => completionOf(kind, claim, result)),
    )
    return yield* Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        // The inner exit is how the work ended by itself, interruption of its own making included. Only what comes from
        // outside, a lost lease or a worker that stops, ends the race without it.
        const exit = yield* Effect.exit(restore(Effect.raceFirst(Effect.exit(work), lease.lost)))
        const settling = Exit.isSuccess(exit)
          ? settleWork(kind, claim, lease, exit.value)
          : settle(
              kind,
              claim,
              lease,
              Cause.hasInterruptsOnly(exit.cause) ? { _tag: "Released" } : { _tag: "LeaseLost" },
            )
        const settled = yield* Effect.catchCause(settling, (cause) =>
          Effect.as(Effect.logError("the end of an attempt could not be written", describe(cause)), "lapsed" as const),
        )
        const stoodStillMs = settled === "lapsed" ? yield* lease.stoodStillMs : 0
        if (stoodStillMs > 0) yield* tellStalled(kind, claim, stoodStillMs, turn.isAlone())
        if (settled !== "committed") yield* removeOrphans(claim, notes.written)
        return stoodStillMs > 0 ? ("stalled" as const) : settled
      }),
    )
  },
  (effect, _kind, claim) => Effect.annotateLogs(effect, { jobId: claim.job.id, attempt: claim.job.attempts }),
)

/** It may be the code of this attempt that did not let the process run, or that of a neighbor. */
const tellStalled = Effect.fnUntraced(function* (
  kind: JobKind,
  { job }: Claim,
  stoodStillMs: number,
  isAlone: boolean,
) {
  const { attempts } = yield* EngineConfig
  const about = `attempt ${job.attempts} of ${job.id} (${kind.name})`
  const blocked = `the event loop past its lease, for ${(stoodStillMs / 1_000).toFixed(1)} s`
  const counted = `counted as a lost worker, ${job.lostWorkers + 1} of ${attempts.maxLostWorkers}`
  yield* Effect.logError(
    isAlone
      ? `${about} blocked ${blocked}; ${counted}`
      : `${about} or one beside it blocked ${blocked}; ${counted}. Synchronous work belongs into a worker thread`,
  )
})

/** A result that is what its kind promises, with what it costs. */
const completionOf = Effect.fnUntraced(function* (kind: JobKind, { job, token }: Claim, result: AttemptResult) {
  const { defaultCurrency } = yield* EngineConfig
  const output = asJsonObject(result.output)
  const problem = output === undefined ? "is no object that JSON carries" : resultProblem(kind, output, result)
  if (output === undefined || problem !== undefined)
    return yield* Effect.die(new Misuse(`a result of ${kind.name} ${problem}`))
  const wrong = kind.outputProblem(output)
  if (wrong !== undefined) return yield* new AttemptFailed({ errorCode: "result_invalid", retry: true, detail: wrong })
  const free = job.price === null ? [] : uncoveredMeters(job.price, usedMeters(result))
  if (job.price !== null && free.length > 0)
    yield* Effect.logError(
      `${free.join(", ")} of this job cost nothing: version ${job.price.version} of the price ${job.price.name}, with which it was accepted, does not name them`,
    )
  return {
    jobId: job.id,
    token,
    output,
    files: result.files,
    warningCode: result.warningCode ?? null,
    charge: chargeOf(job, result, defaultCurrency),
  } satisfies Completion
})

const usedMeters = ({ usage }: AttemptResult): ReadonlyArray<string> =>
  Object.keys(usage).filter((meter) => (usage[meter] ?? 0) > 0)

/** A live job of a kind without a price is charged nothing, and that is written down as well. */
const chargeOf = ({ mode, price }: Job, { usage }: AttemptResult, defaultCurrency: string): Charge | null => {
  if (mode === "sandbox") return null
  return price === null ? { currency: defaultCurrency, amount: "0", lineItems: [] } : chargeFor(price, usage)
}

/** What a kind's code got wrong: a mistake of its author, not of a provider. It names what the kind declares, and nothing else. */
const resultProblem = (
  kind: JobKind,
  output: JsonObject,
  { files, usage, warningCode }: AttemptResult,
): string | undefined => {
  const names = files.map(({ name }) => name).sort()
  if (names.join() !== [...kind.files].sort().join())
    return `must have the files that its kind declares, and no others: "${kind.files.join(", ")}"`
  const both = names.find((name) => Object.hasOwn(output, name))
  if (both !== undefined) return `has "${both}" as a field of its output and as a file`
  if (JSON.stringify(output).length > limits.kindJsonLength) return "has an output that is too long"
  if (warningCode != null && !warningCodes.includes(warningCode))
    return `has a warning code that is none of ${warningCodes.join(", ")}`
  if (typeof usage !== "object" || usage === null) return "has a usage that is no object"
  for (const [meter, quantity] of Object.entries(usage)) {
    if (!kind.meters.includes(meter)) return `uses a meter that is none of its kind's: "${kind.meters.join(", ")}"`
    if (!Number.isSafeInteger(quantity) || quantity < 0) return `uses of "${meter}" what is no whole number from 0 on`
  }
  return undefined
}

type Write<R> = Effect.Effect<ReadonlyArray<FencedOutcome>, StoreUnavailable, R>

/**
 * Writes how the attempt ended, again and again while the store is out of reach and the lease still holds. A try that
 * counted though its answer was lost is the same end to the store, so no answer but the last one matters.
 */
const insist = <R>(lease: HeldLease, write: Write<R>): Effect.Effect<"written" | "lapsed", never, R> =>
  Effect.raceFirst(Effect.interruptible(write.pipe(Effect.retry(retrying))), Effect.interruptible(lease.lost)).pipe(
    Effect.map(([outcome]) => (outcome === "Written" ? ("written" as const) : ("lapsed" as const))),
    Effect.catch(() => Effect.succeed("lapsed" as const)),
  )

type Settling = Extract<JobEvent, { readonly type: "done" | "failed" | "attempt_failed" }>
type Unreferenced<Event> = Event extends unknown ? Omit<Event, keyof JobRef> : never

/** Tells this process what was written about a job. */
const emit = (job: Job, event: Unreferenced<Settling>) =>
  Effect.map(JobEvents, (events) => events.emit({ ...refOf(job), ...event }))

/** Commits a result, or writes why there is none. */
const settleWork = Effect.fnUntraced(function* (
  kind: JobKind,
  claim: Claim,
  lease: HeldLease,
  work: Exit.Exit<Completion, AttemptError>,
): Effect.fn.Return<Settled, never, JobStore | JobEvents> {
  if (Exit.isFailure(work)) {
    const end = attemptEnd(work.cause)
    const mistake = misuseIn(work.cause)
    if (mistake !== undefined)
      yield* Effect.logError(`the job fails by a mistake in its kind ${kind.name}`, `${mistake.name}: ${mistake.words}`)
    else if (end._tag === "PutOff") yield* Effect.logDebug("a provider wants to be asked again later")
    else yield* Effect.logWarning("attempt ended without a result", describe(work.cause))
    return yield* settle(kind, claim, lease, end)
  }
  const store = yield* JobStore
  const commit = yield* Effect.exit(insist(lease, store.completeJobs([work.value])))
  if (Exit.isSuccess(commit)) {
    if (commit.value === "lapsed") return "lapsed"
    yield* emit(claim.job, { type: "done" })
    return "committed"
  }
  // A result the store will not have: asking the provider again would bring another of its kind.
  yield* Effect.logError("the store refused a result", describe(commit.cause))
  return yield* settle(kind, claim, lease, { _tag: "Failed", failure: { errorCode: "internal_error", retry: false } })
})

/**
 * For the log. A failure says what it has to say in its own words; of a defect only its kind and where it happened, since
 * its message is somebody else's and may quote a prompt.
 */
const describe = (cause: Cause.Cause<AttemptError>): string => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (error !== undefined) {
    if (error._tag === "ProviderBroken") return `${error._tag} ${error.reason}: ${error.detail}`
    return "detail" in error ? `${error._tag} ${error.errorCode}: ${error.detail}` : error._tag
  }
  const defect = Cause.squash(cause)
  if (!isError(defect)) return "defect"
  return [defect.name, ...(defect.stack ?? "").split("\n").filter((line) => line.startsWith("    at "))].join("\n")
}

/** Writes the end of an attempt without a result. */
const settle = Effect.fnUntraced(function* (
  kind: JobKind,
  claim: Claim,
  lease: HeldLease,
  end: AttemptEnd,
): Effect.fn.Return<Settled, never, JobStore | JobEvents> {
  const store = yield* JobStore
  const { attempts, circuit } = yield* EngineConfig
  const { job, token } = claim
  const ref = { jobId: job.id, token }
  const defer = (delayMs: number, countsAsFailure: boolean) =>
    insist(lease, store.deferJobs([{ ...ref, delayMs, countsAsFailure }]))
  switch (end._tag) {
    case "LeaseLost":
      yield* Effect.logWarning("lease lost")
      return "lapsed"
    case "Released":
      return yield* insist(lease, store.releaseJobs([ref]))
    case "Postponed": {
      const deferred = yield* defer(postponementMs(end.outOfReach, job.attempts, attempts, circuit), false)
      return deferred === "written" && end.outOfReach === "BlobUnavailable" ? "blobs_away" : deferred
    }
    case "PutOff":
      return yield* defer(putOffMs(end.delayMs, attempts), false)
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

/**
 * Milliseconds: doubled with each attempt, like the pause after a failure, but without end: the queue limit ends it. What waits
 * for a paused provider is not claimed before its time, and need not wait for longer then. Who found one broken comes back
 * after the pause and after others: should it be the reason itself, as one that asks for more than is left of a quota, it
 * would otherwise be the one that finds out each time, and keep it paused for everybody.
 */
const postponementMs = (
  outOfReach: (AttemptEnd & { readonly _tag: "Postponed" })["outOfReach"],
  attempt: number,
  { backoffBaseMs, backoffMaxMs }: AttemptLimits,
  { brokenPauseMaxMs, brokenPauseMs }: CircuitLimits,
): number => {
  if (outOfReach === "ProviderPaused") return backoffBaseMs
  const doubled = 2 ** Math.min(attempt - 1, 16)
  return outOfReach === "ProviderBroken"
    ? Math.ceil(1.5 * Math.min(brokenPauseMaxMs, brokenPauseMs * doubled))
    : Math.min(backoffMaxMs, backoffBaseMs * doubled)
}

/** Milliseconds below which a provider that asks for a delay each time would keep a worker busy with nothing else. */
const shortestDelayMs = 100

/** Milliseconds, whatever the provider's own code says. */
const putOffMs = (delayMs: number, { retryAfterMaxMs }: AttemptLimits): number =>
  Number.isNaN(delayMs) ? shortestDelayMs : Math.ceil(Math.max(shortestDelayMs, Math.min(delayMs, retryAfterMaxMs)))

/**
 * Removes what this attempt wrote and nobody will ever commit. The store is asked, not the
 * attempt: a completion that never got an answer may well be committed. What is left behind, the
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
    // A record that has not come to this token is of another store than the one that handed out the claim.
    const own = orphans.filter(({ reason }) => reason !== "ahead")
    yield* Effect.forEach(own, ({ blobKey }) => blobs.remove(blobKey), { discard: true })
  }).pipe(Effect.ignore)
