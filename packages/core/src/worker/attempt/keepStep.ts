import * as Effect from "effect/Effect"
import { type Json, limits } from "../../domain/index.ts"
import { asJson, jsonProblem } from "../../kinds/readBySchema.ts"
import { type AttemptError, LeaseLost } from "../../kinds/AttemptContext.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { Claim, JobStore } from "../../ports/index.ts"
import { retrying } from "../repeating.ts"
import { shownCall } from "./Attempt.ts"

/** The stored value of a step that returned nothing, so that it is `undefined` in a later attempt too, and not `null`. */
const nothing = "kiln:undefined"

/** Returns what is stored for the value of a step. The value itself is checked when it is written. */
export const toKept = (value: unknown): Json => (value === undefined ? { [nothing]: true } : (value as Json))

/** Returns the value of a step from what is stored. */
export const fromKept = (stored: Json | undefined): unknown =>
  typeof stored === "object" && stored !== null && Object.hasOwn(stored, nothing) ? undefined : stored

/** Returns why a value cannot be stored. Checked here, so that every store rejects the same values. */
const valueProblem = (step: string, value: Json): string | undefined => {
  const json = asJson(value)
  const call = shownCall("step", step)
  if (json === undefined) return `${call} returned a value that is not JSON. ${jsonProblem("value", value)}`
  return json.length > limits.kindJsonLength
    ? `${call} returned a value of ${json.length} characters of JSON; the limit is ${limits.kindJsonLength}`
    : undefined
}

/**
 * Stores the value of a step, and retries while the store is unavailable, so that an outage does not make a retry pay for it
 * again.
 */
export const keepStep = Effect.fnUntraced(function* (
  store: JobStore["Service"],
  { job, token }: Claim,
  step: string,
  value: Json,
): Effect.fn.Return<void, AttemptError> {
  const problem = valueProblem(step, value)
  if (problem !== undefined) return yield* Effect.die(new KindBug(problem))
  const write = store.checkpointJobs([{ jobId: job.id, token, step, value }])
  const [outcome] = yield* Effect.retry(write, retrying)
  if (outcome !== "Written") return yield* new LeaseLost()
})
