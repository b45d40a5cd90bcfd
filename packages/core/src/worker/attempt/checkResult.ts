import * as Result from "effect/Result"
import { uncoveredMeters, type Usage } from "../../domain/Billing.ts"
import { type Charge, chargeFor, type Job, limits, warningCodes } from "../../domain/index.ts"
import { valueOf } from "../../domain/realms.ts"
import { withinMaximum } from "../../domain/SpendCap.ts"
import { asJsonObject, type JsonCopy, jsonProblem } from "../../kinds/asJson.ts"
import { AttemptFailed, type AttemptResult } from "../../kinds/AttemptContext.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { Claim, Completion } from "../../ports/index.ts"

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
export const checkResult = (
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
    charge: chargeOf(job, withinMaximum(result.usage, maxUsage), defaultCurrency),
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
const chargeOf = ({ mode, price }: Job, usage: Usage, defaultCurrency: string): Charge | null => {
  if (mode === "sandbox") return null
  return price === null ? { currency: defaultCurrency, amount: "0", lineItems: [] } : chargeFor(price, usage)
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
