import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type AttemptLimits, type FailureReason } from "../../domain/Attempt.ts"
import { messageOf } from "../../domain/AttemptRecord.ts"
import { type CircuitLimits } from "../../domain/Circuit.ts"
import { DiskProblem } from "../../domain/diskProblem.ts"
import { readSafely } from "../../domain/givenValues.ts"
import { isError, type Parking } from "../../domain/index.ts"
import { LogMessages } from "../../engine/LogMessages.ts"
import { traceOfError } from "../../engine/publicError.ts"
import { type AttemptError, AttemptFailed } from "../../kinds/AttemptContext.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { Completion } from "../../ports/index.ts"

/** The end of an attempt, which decides what happens to the job. */
export type AttemptEnd =
  | { readonly _tag: "Completed"; readonly completion: Completion }
  /** The lease is lost: nothing may be written. */
  | { readonly _tag: "LeaseLost" }
  /** The worker is stopping, or a switch was turned off: the job is released, and no budget is charged. */
  | { readonly _tag: "Released" }
  /**
   * kiln's own store or blobs were unavailable, or the provider is broken for every job: retried later, and no budget is
   * charged.
   */
  | { readonly _tag: "Unavailable"; readonly what: Unavailable }
  /** A step waits: the job is parked, and no budget is charged. */
  | { readonly _tag: "Parked"; readonly park: Parking }
  /** The provider asked to be called again later: retried after its delay, and no budget is charged. */
  | { readonly _tag: "Postponed"; readonly delayMs: number }
  /** The attempt failed. */
  | { readonly _tag: "Failed"; readonly failure: FailureReason }

type Unavailable = "StoreUnavailable" | "BlobUnavailable" | "ProviderPaused" | "ProviderBroken"

const internal = (retry: boolean): AttemptEnd => ({ _tag: "Failed", failure: { errorCode: "internal_error", retry } })

/** Finds a bug of the kind among the causes of an attempt's end. It takes precedence, because every attempt would repeat it. */
export const kindBugIn = (cause: Cause.Cause<unknown>): KindBug | undefined =>
  cause.reasons
    .map((reason) => (Cause.isDieReason(reason) ? reason.defect : undefined))
    .find((it) => it instanceof KindBug)

/**
 * Classifies the cause of an attempt that was not interrupted by the worker. A defect is retried within the budget of failures,
 * and so is a provider that interrupts itself. A damaged upload and a bug of the kind are not retried.
 */
export const attemptEnd = (cause: Cause.Cause<AttemptError>): AttemptEnd => {
  if (kindBugIn(cause) !== undefined) return internal(false)
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (error === undefined) return internal(true)
  switch (error._tag) {
    case "LeaseLost":
      return { _tag: "LeaseLost" }
    case "GateShut":
      return { _tag: "Released" }
    case "AttemptParked":
      return { _tag: "Parked", park: error.park }
    case "StoreUnavailable":
    case "BlobUnavailable":
    case "ProviderPaused":
    case "ProviderBroken":
      return { _tag: "Unavailable", what: error._tag }
    case "ProviderPostponed":
      return { _tag: "Postponed", delayMs: error.delayMs }
    case "BlobCorrupt":
      return internal(false)
    case "AttemptFailed": {
      const { errorCode, publicMessage, retry, retryAfterMs } = error
      return { _tag: "Failed", failure: { errorCode, publicMessage, retry, retryAfterMs } }
    }
    case "ProviderFailure":
      return {
        _tag: "Failed",
        failure: { errorCode: error.errorCode, retry: error.retry, retryAfterMs: error.retryAfterMs },
      }
    // JavaScript code may fail with anything.
    default:
      return internal(true)
  }
}

/**
 * Returns whether an attempt that meets this cause cannot go on, through no failure of the job: it must wait, is released, or has lost
 * its lease.
 */
export const cannotGoOn = (cause: Cause.Cause<AttemptError>): boolean => attemptEnd(cause)._tag !== "Failed"

/**
 * Returns the log text of a cause. An expected failure is logged with its detail. A defect, also of a provider, is logged only by its class and
 * stack, because the message of foreign code may quote a prompt, unless `LogMessages` is set.
 */
export const described = (cause: Cause.Cause<AttemptError>): Effect.Effect<string> =>
  Effect.map(LogMessages, (messages) => describe(cause, messages))

/** Writes a log entry about a cause. */
export const logCause = (
  log: (...message: ReadonlyArray<unknown>) => Effect.Effect<void>,
  message: string,
  cause: Cause.Cause<AttemptError>,
): Effect.Effect<void> => Effect.flatMap(described(cause), (why) => log(message, why))

const longestMessage = 1_000

const textOf = (error: unknown): string => (readSafely(() => messageOf(error)) ?? "").slice(0, longestMessage)

const describe = (cause: Cause.Cause<AttemptError>, messages: boolean): string => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  if (error !== undefined) {
    if (error._tag === "ProviderBroken") return `${error._tag} ${error.reason}: ${error.detail}`
    // The text is kiln's own: the place and the remedy.
    if ("cause" in error && error.cause instanceof DiskProblem) return `${error._tag}: ${error.cause.message}`
    const line = "detail" in error ? `${error._tag} ${error.errorCode}: ${error.detail}` : error._tag
    return error._tag === "ProviderFailure" && error.cause !== undefined ? withTrace(line, error.cause, messages) : line
  }
  const defect = Cause.squash(cause)
  return withTrace(isError(defect) ? traceOfError(defect).name : "defect", defect, messages)
}

/** Adds the frames of what code threw, and its message if messages are shown. */
const withTrace = (line: string, thrown: unknown, messages: boolean): string => {
  const text = messages ? textOf(thrown) : ""
  return [text === "" ? line : `${line}: ${text}`, ...(isError(thrown) ? traceOfError(thrown).frames : [])].join("\n")
}

/**
 * Returns the delay after something was unavailable, in milliseconds. It doubles with each attempt, like the backoff after a
 * failure, but does not give up: the queue limit ends the job. Jobs of a paused provider are not claimed until it is tried
 * again, so they need no longer delay. A job that found its provider broken returns after the pause and after other jobs,
 * because its own request may be the reason, for example one that needs more than the rest of a quota. It must not be the one
 * that tests the provider each time.
 */
export const unavailableDelayMs = (
  what: Unavailable,
  attempt: number,
  { backoffBaseMs, backoffMaxMs }: AttemptLimits,
  { brokenPauseMaxMs, brokenPauseMs }: CircuitLimits,
): number => {
  if (what === "ProviderPaused") return backoffBaseMs
  const doubled = 2 ** Math.min(attempt - 1, 16)
  return what === "ProviderBroken"
    ? Math.ceil(1.5 * Math.min(brokenPauseMaxMs, brokenPauseMs * doubled))
    : Math.min(backoffMaxMs, backoffBaseMs * doubled)
}

/** Milliseconds. With a shorter delay, a provider that postpones every call would occupy a worker completely. */
const shortestDelayMs = 100

/** Limits the delay that a provider asks for, in milliseconds. It may be any number, also NaN. */
export const postponedDelayMs = (delayMs: number, { retryAfterMaxMs }: AttemptLimits): number =>
  Number.isNaN(delayMs) ? shortestDelayMs : Math.ceil(Math.max(shortestDelayMs, Math.min(delayMs, retryAfterMaxMs)))

/** The failure of an attempt that takes longer than its kind allows. */
export const tookTooLong = (attemptTimeoutMs: number): AttemptFailed =>
  new AttemptFailed({
    errorCode: "job_timeout",
    retry: true,
    detail: `the attempt took longer than attemptTimeoutMs, ${attemptTimeoutMs} ms`,
  })
