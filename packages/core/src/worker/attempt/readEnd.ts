import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { isBuiltInErrorCode } from "../../domain/ErrorCode.ts"
import { unknownName } from "../../domain/knownNames.ts"
import { readSafely } from "../../domain/realms.ts"
import type { AttemptError, AttemptResult } from "../../kinds/AttemptContext.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { Attempt } from "./Attempt.ts"
import { type AttemptEnd, attemptEnd, logCause, kindBugIn } from "./AttemptEnd.ts"
import { checkResult } from "./checkResult.ts"

/** The end of an attempt, with the facts to report. */
export type LoggedEnd = AttemptEnd & {
  /** Logs why there is no result, or what is wrong with it. */
  readonly log?: Effect.Effect<void>
  /** The error that the attempt threw. */
  readonly error?: unknown
}

/** Classifies the end of an attempt's work, whatever that returned or threw. */
export const readEnd = (
  attempt: Attempt,
  exit: Exit.Exit<AttemptResult, AttemptError>,
  defaultCurrency: string,
): LoggedEnd =>
  readSafely(() => classify(attempt, exit, defaultCurrency)) ?? endOfFailure(attempt.kind, Cause.die(unreadable()))

/**
 * Classifies the end of the work. If the lease is lost, the worker stops or the attempt cannot go on, that decides, whatever the work
 * returned or threw. Otherwise, the work's own result decides.
 */
const classify = (
  attempt: Attempt,
  exit: Exit.Exit<AttemptResult, AttemptError>,
  defaultCurrency: string,
): LoggedEnd => {
  if (attempt.lease.isLost) return { _tag: "LeaseLost" }
  if (attempt.isStopping && Exit.isFailure(exit)) return { _tag: "Released" }
  const bug = attempt.nameBug
  if (bug === undefined && attempt.cutBy !== undefined) return endOfFailure(attempt.kind, attempt.cutBy)
  if (Exit.isFailure(exit))
    return endOfFailure(attempt.kind, bug === undefined ? exit.cause : Cause.combine(Cause.die(bug), exit.cause))
  const early = bug ?? attempt.unfinishedBug
  if (early !== undefined) return endOfFailure(attempt.kind, Cause.die(early))
  const checked = checkSafely(attempt, exit.value, defaultCurrency)
  if (Exit.isFailure(checked)) return endOfFailure(attempt.kind, checked.cause)
  const { beyondMaximum, uncharged } = checked.value
  const { followUps } = attempt
  const completion = followUps === undefined ? checked.value.completion : { ...checked.value.completion, followUps }
  if (beyondMaximum.length > 0) return { _tag: "Completed", completion, log: logBeyondMaximum(attempt, beyondMaximum) }
  if (uncharged.length > 0) return { _tag: "Completed", completion, log: logUncharged(attempt, uncharged) }
  return { _tag: "Completed", completion }
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
  if (end._tag === "Parked") {
    const { reason, subject } = end.park
    return reason === "gate" ? { ...end, log: Effect.logDebug("children may not be created now", subject) } : end
  }
  if (end._tag === "Postponed") return { ...end, log: Effect.logDebug("a provider postponed its call") }
  return { ...end, log: logCause(Effect.logWarning, "attempt ended without a result", cause) }
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
