import { Cause, Effect, Exit, Option, Random } from "effect"
import {
  afterFailure,
  type AttemptLimits,
  type Charge,
  chargeFor,
  type CircuitLimits,
  isError,
  type Job,
  type JsonObject,
  limits,
  type StoreUnavailable,
} from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobEvents, refOf } from "../engine/JobEvents.ts"
import type { JobHappening, JobRef } from "../engine/JobHappening.ts"
import { JobSignals } from "../engine/JobSignals.ts"
import { asJsonObject } from "../kinds/asJson.ts"
import { type AttemptError, AttemptFailed, type AttemptResult } from "../kinds/AttemptContext.ts"
import { type JobKind } from "../kinds/JobKind.ts"
import { Misuse } from "../kinds/Misuse.ts"
import { BlobStore, type Claim, type Completion, type FencedOutcome, JobStore } from "../ports/index.ts"
import { attemptContext } from "./AttemptContext.ts"
import { type AttemptEnd, attemptEnd } from "./AttemptEnd.ts"
import type { HeldLease } from "./HeldLease.ts"
import { retrying } from "./retrying.ts"

/**
 * What was written of an attempt's end: its result; something else; that blobs were out of reach; or nothing, because the
 * claim was gone or the store away.
 */
export type Settled = "committed" | "written" | "blobs_away" | "lapsed"

/**
 * One attempt, in named steps: build the context, run the kind, settle. It ends early when the
 * claim is lost or the worker stops; how it ended is always written, unless the claim is gone.
 */
export const runAttempt = Effect.fnUntraced(
  function* (kind: JobKind, claim: Claim, lease: HeldLease) {
    const written: Array<string> = []
    const work = attemptContext(kind, claim, lease, written).pipe(
      Effect.flatMap((context) => kind.run(context)),
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
        if (settled !== "committed") yield* removeOrphans(claim, written)
        return settled
      }),
    )
  },
  (effect, _kind, claim) => Effect.annotateLogs(effect, { jobId: claim.job.id, attempt: claim.job.attempts }),
)

/** A result that is what its kind promises, with what it costs. */
const completionOf = Effect.fnUntraced(function* (kind: JobKind, { job, token }: Claim, result: AttemptResult) {
  const { defaultCurrency } = yield* EngineConfig
  const output = asJsonObject(result.output)
  const problem = output === undefined ? "is no object that JSON carries" : resultProblem(kind, output, result)
  if (output === undefined || problem !== undefined)
    return yield* Effect.die(new Misuse(`a result of ${kind.name} ${problem}`))
  const wrong = kind.outputProblem(output)
  if (wrong !== undefined) return yield* new AttemptFailed({ errorCode: "result_invalid", retry: true, detail: wrong })
  return {
    jobId: job.id,
    token,
    output,
    files: result.files,
    warningCode: result.warningCode ?? null,
    charge: chargeOf(job, result, defaultCurrency),
  } satisfies Completion
})

/** A live job of a kind without a price is charged nothing, and that is written down as well. */
const chargeOf = ({ mode, price }: Job, { usage }: AttemptResult, defaultCurrency: string): Charge | null => {
  if (mode === "sandbox") return null
  return price === null ? { currency: defaultCurrency, amount: "0", lineItems: [] } : chargeFor(price, usage)
}

/** What a kind's code got wrong: a mistake of its author, not of a provider. It names what the kind declares, and nothing else. */
const resultProblem = (kind: JobKind, output: JsonObject, { files, usage }: AttemptResult): string | undefined => {
  const names = files.map(({ name }) => name).sort()
  if (names.join() !== [...kind.files].sort().join())
    return `must have the files that its kind declares, and no others: "${kind.files.join(", ")}"`
  const both = names.find((name) => Object.hasOwn(output, name))
  if (both !== undefined) return `has "${both}" as a field of its output and as a file`
  if (JSON.stringify(output).length > limits.kindJsonLength) return "has an output that is too long"
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

type Ended = { readonly type: "done" } | Pick<JobHappening & { readonly type: "failed" }, "type" | "errorCode">
type Told = Ended | Omit<JobHappening & { readonly type: "attempt_failed" }, keyof JobRef>

/** Tells this process what was written of a job. */
const tell = Effect.fnUntraced(function* (job: Job, what: Told) {
  const events = yield* JobEvents
  const signals = yield* JobSignals
  if (what.type !== "attempt_failed") yield* signals.finished(job.id)
  events.emit({ ...refOf(job), ...what })
})

/** Commits a result, or writes why there is none. */
const settleWork = Effect.fnUntraced(function* (
  kind: JobKind,
  claim: Claim,
  lease: HeldLease,
  work: Exit.Exit<Completion, AttemptError>,
): Effect.fn.Return<Settled, never, JobStore | JobSignals | JobEvents> {
  if (Exit.isFailure(work)) {
    yield* Effect.logWarning("attempt ended without a result", describe(work.cause))
    return yield* settle(kind, claim, lease, attemptEnd(work.cause))
  }
  const store = yield* JobStore
  const commit = yield* Effect.exit(insist(lease, store.completeJobs([work.value])))
  if (Exit.isSuccess(commit)) {
    if (commit.value === "lapsed") return "lapsed"
    yield* tell(claim.job, { type: "done" })
    return "committed"
  }
  // A result the store will not have: asking the provider again would bring another of its kind.
  yield* Effect.logError("the store refused a result", describe(commit.cause))
  return yield* settle(kind, claim, lease, { _tag: "Failed", failure: { errorCode: "internal_error", retry: false } })
})

/**
 * For the log. A failure says what it has to say in its own words; of a defect only its kind and where it happened, since
 * its message is somebody else's and may quote a prompt; kiln's own words about a mistake quote nothing.
 */
const describe = (cause: Cause.Cause<AttemptError>): string => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (error !== undefined) {
    if (error._tag === "ProviderBroken") return `${error._tag} ${error.reason}: ${error.detail}`
    return "detail" in error ? `${error._tag} ${error.errorCode}: ${error.detail}` : error._tag
  }
  const defect = Cause.squash(cause)
  if (defect instanceof Misuse) return `${defect.name}: ${defect.words}`
  if (!isError(defect)) return "defect"
  return [defect.name, ...(defect.stack ?? "").split("\n").filter((line) => line.startsWith("    at "))].join("\n")
}

/** Writes the end of an attempt without a result. */
const settle = Effect.fnUntraced(function* (
  kind: JobKind,
  claim: Claim,
  lease: HeldLease,
  end: AttemptEnd,
): Effect.fn.Return<Settled, never, JobStore | JobSignals | JobEvents> {
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
    case "Failed": {
      const { maxFailures = attempts.maxFailures } = kind.limits
      const after = afterFailure(end.failure, job.failures, { ...attempts, maxFailures }, yield* Random.next)
      if (after.next === "defer") {
        const deferred = yield* defer(after.delayMs, true)
        const { errorCode } = end.failure
        const { delayMs: retryInMs } = after
        if (deferred === "written")
          yield* tell(job, { type: "attempt_failed", attempt: job.attempts, errorCode, retryInMs })
        return deferred
      }
      const failed = yield* insist(lease, store.failJobs([{ ...ref, errorCode: after.errorCode }]))
      if (failed === "written") yield* tell(job, { type: "failed", errorCode: after.errorCode })
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
    yield* Effect.forEach(orphans, (blobKey) => blobs.remove(blobKey), { discard: true })
  }).pipe(Effect.ignore)
