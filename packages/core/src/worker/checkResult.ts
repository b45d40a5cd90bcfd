import * as Effect from "effect/Effect"
import { type Charge, chargeFor, type Job, type JsonObject, limits, warningCodes } from "../domain/index.ts"
import { uncoveredMeters } from "../domain/Billing.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { asJsonObject } from "../kinds/asJson.ts"
import { AttemptFailed, type AttemptResult } from "../kinds/AttemptContext.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import { KindBug } from "../kinds/KindBug.ts"
import type { Claim, Completion } from "../ports/index.ts"

/**
 * Checks a result against what its kind declares, and adds the charge. Dies with `KindBug` for a result that contradicts the
 * declaration, and fails with `result_invalid` for an output that the kind's schema rejects.
 */
export const checkResult = Effect.fnUntraced(function* (kind: JobKind, { job, token }: Claim, result: AttemptResult) {
  const { defaultCurrency } = yield* EngineConfig
  const output = asJsonObject(result.output)
  const problem = output === undefined ? "is not a JSON object" : resultProblem(kind, output, result)
  if (output === undefined || problem !== undefined)
    return yield* Effect.die(new KindBug(`the result of ${kind.name} ${problem}`))
  const wrong = kind.outputProblem(output)
  if (wrong !== undefined) return yield* new AttemptFailed({ errorCode: "result_invalid", retry: true, detail: wrong })
  const free = job.price === null ? [] : uncoveredMeters(job.price, usedMeters(result))
  if (job.price !== null && free.length > 0)
    yield* Effect.logError(
      `usage of ${free.join(", ")} was not charged: version ${job.price.version} of the price ${job.price.name}, with which the job was accepted, lacks it`,
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

/** A live job of a kind without a price has a charge of 0. Sandbox jobs have no charge. */
const chargeOf = ({ mode, price }: Job, { usage }: AttemptResult, defaultCurrency: string): Charge | null => {
  if (mode === "sandbox") return null
  return price === null ? { currency: defaultCurrency, amount: "0", lineItems: [] } : chargeFor(price, usage)
}

/** Says what contradicts the kind's declaration. Names nothing but what the kind declares. */
const resultProblem = (
  kind: JobKind,
  output: JsonObject,
  { files, usage, warningCode }: AttemptResult,
): string | undefined => {
  const names = files.map(({ name }) => name).sort()
  if (names.join() !== [...kind.files].sort().join())
    return `must have exactly the files that the kind declares: "${kind.files.join(", ")}"`
  const both = names.find((name) => Object.hasOwn(output, name))
  if (both !== undefined) return `has "${both}" both as a field of its output and as a file`
  if (JSON.stringify(output).length > limits.kindJsonLength) return "has an output that is too long"
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
