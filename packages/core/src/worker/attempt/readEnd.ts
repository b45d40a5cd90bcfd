import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { uncoveredMeters, type Usage } from "../../domain/Billing.ts"
import { isBuiltInErrorCode } from "../../domain/ErrorCode.ts"
import { readSafely, unknownName, valueOf } from "../../domain/givenValues.ts"
import { type Charge, chargeFor, type Job, limits, warningCodes } from "../../domain/index.ts"
import { withinMaximum } from "../../domain/SpendCap.ts"
import { type AttemptError, AttemptFailed, type AttemptResult } from "../../kinds/AttemptContext.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import { asJsonObject, type JsonCopy, jsonProblem } from "../../kinds/readBySchema.ts"
import type { Claim, Completion } from "../../ports/index.ts"
import type { Attempt } from "./Attempt.ts"
import { type AttemptEnd, attemptEnd, kindBugIn, logCause } from "./AttemptEnd.ts"

/** A checked result: the completion to write, or the reason why it cannot be written. */
export type CheckedResult =
  | {
      readonly completion: Completion
      /** The used meters that the price does not name. Their usage is not charged. */
      readonly uncharged: ReadonlyArray<string>
      /** The meters used beyond the maximum that the kind states. Only the maximum is charged. */
      readonly beyondMaximum: ReadonlyArray<string>
    }
  /** The result contradicts the kind's declaration, or the kind's schema rejects the output (`result_invalid`). */
  | { readonly problem: KindBug | AttemptFailed }

/** Checks a result against the declaration of its kind, and computes the charge. */
const checkResult = (
  kind: JobKind,
  { job, token }: Claim,
  result: AttemptResult,
  defaultCurrency: string,
): CheckedResult => {
  const given: unknown = result.output === undefined && kind.output === undefined ? {} : result.output
  const copy = asJsonObject(given)
  const problem = copy === undefined ? notJsonObject(given) : resultProblem(kind, copy, result)
  if (copy === undefined || problem !== undefined)
    return { problem: new KindBug(`the result of ${kind.name} ${problem}`) }
  const output = copy.stored
  const wrong = kind.outputProblem(output)
  if (wrong !== undefined)
    return { problem: new AttemptFailed({ errorCode: "result_invalid", retry: true, detail: wrong }) }
  const maxUsage = maxUsageOf(kind, job)
  const completion: Completion = {
    jobId: job.id,
    token,
    output,
    files: result.files,
    warningCode: result.warningCode ?? null,
    charge: chargeOf(job, result.usage, maxUsage, defaultCurrency),
  }
  return {
    completion,
    uncharged: job.price === null ? none : uncoveredMeters(job.price, usedMeters(result)),
    beyondMaximum:
      maxUsage === null
        ? none
        : usedMeters(result).filter((meter) => (result.usage[meter] ?? 0) > (valueOf(maxUsage, meter) ?? Infinity)),
  }
}

const notJsonObject = (output: unknown): string => {
  if (output === undefined) return "has no output, and the kind declares one: return { output: { … } } from run"
  const problem = jsonProblem("output", output) ?? `output: ${shownType(output)} is not an object, such as { value }`
  return `has an output that is not JSON. ${problem}`
}

const shownType = (output: unknown): string =>
  output === null ? "null" : Array.isArray(output) ? "a list" : `a ${typeof output}`

/** Only charged jobs have a maximum. It is what was reserved under a spend cap when the job was accepted. */
const maxUsageOf = (kind: JobKind, { mode, price, request }: Job): Usage | null => {
  if (mode === "sandbox" || price === null) return null
  const read = kind.reader.readStored(request)
  return Result.isSuccess(read) ? kind.maxUsage(read.success) : null
}

const none: ReadonlyArray<string> = []

const usedMeters = ({ usage }: AttemptResult): ReadonlyArray<string> =>
  Object.keys(usage).filter((meter) => (usage[meter] ?? 0) > 0)

/** A live job of a kind without a price has a charge of 0. Sandbox jobs have no charge. */
const chargeOf = (
  { mode, price }: Job,
  usage: Usage,
  maxUsage: Usage | null,
  defaultCurrency: string,
): Charge | null => {
  if (mode === "sandbox") return null
  if (price === null) return { currency: defaultCurrency, amount: "0", lineItems: [] }
  return chargeFor(price, withinMaximum(usage, maxUsage))
}

/** Returns whether these are the files of the kind, each once, in any order. */
const areDeclared = ({ files: declared }: JobKind, files: AttemptResult["files"]): boolean =>
  files.length === declared.length &&
  (files.length === 0 ||
    files
      .map(({ name }) => name)
      .sort()
      .join() === [...declared].sort().join())

/** Returns how the result contradicts the kind's declaration. Quotes only names that the kind declares. */
const resultProblem = (
  kind: JobKind,
  { canonical, stored: output }: JsonCopy,
  { files, usage, warningCode }: AttemptResult,
): string | undefined => {
  if (!areDeclared(kind, files)) {
    const missing = kind.files.find((name) => !files.some((file) => file.name === name))
    return missing === undefined
      ? `must have exactly the files that the kind declares: "${kind.files.join(", ")}"`
      : `lacks the file "${missing}", which the kind declares: write it with writeFile("${missing}", …)`
  }
  const both = files.find(({ name }) => Object.hasOwn(output, name))
  if (both !== undefined) return `has "${both.name}" both as a field of its output and as a file`
  if (canonical.length > limits.kindJsonLength) return "has an output that is too long"
  if (warningCode != null && !warningCodes.includes(warningCode))
    return `has an unknown warning code; known: ${warningCodes.join(", ")}`
  if (typeof usage !== "object" || usage === null) return "has a usage that is not an object"
  for (const [meter, quantity] of Object.entries(usage)) {
    if (!kind.meters.includes(meter))
      return `uses a meter that the kind does not declare; declared: "${kind.meters.join(", ")}"`
    if (!Number.isSafeInteger(quantity) || quantity < 0)
      return `is invalid: usage.${meter} must be a non-negative integer`
  }
  return undefined
}

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
