import * as Effect from "effect/Effect"
import { gatePauseMs } from "../../domain/Child.ts"
import type { Job } from "../../domain/index.ts"
import type { SpendCapReached } from "../../domain/Errors.ts"
import type { CreateJobError } from "../../engine/index.ts"
import { type AttemptError, AttemptFailed, AttemptParked } from "../../kinds/AttemptContext.ts"
import { jsonProblem } from "../../kinds/readBySchema.ts"
import type { KindBug } from "../../kinds/KindBug.ts"

/** A job that an attempt submitted, in messages. */
export interface SubmittedByAttempt {
  readonly request: unknown
  /** Names the job: `child 0 of children("a")`. */
  readonly name: string
  /** The subject of a message that it waits: `the children of step "a"`. */
  readonly waiting: string
  /** The bug of an idempotency key that is used for another request. */
  readonly reused: () => KindBug
}

/** Turns the refusal of a job that an attempt submitted into the end of the attempt. It waits for what an operator can change. */
export const refused = (
  error: CreateJobError,
  job: Job,
  now: () => number,
  { name, request, reused, waiting }: SubmittedByAttempt,
): Effect.Effect<never, AttemptError> => {
  if (error._tag === "StoreUnavailable") return Effect.fail(error)
  const parkOn = (missing: ReadonlyArray<string>) =>
    Effect.fail(
      new AttemptParked({ park: { reason: "gate", subject: missing.join(", "), until: now() + gatePauseMs } }),
    )
  if (error._tag === "LiveNotActive") return parkOn(error.missing)
  // Until the cap is raised or its period ends, but no longer than the job may wait.
  if (error._tag === "SpendCapReached")
    return Effect.andThen(tellOfCap(error, waiting, job), parkOn([`spend_cap:${error.owner}`]))
  if (error._tag === "IdempotencyKeyReused") return Effect.die(reused())
  const detail = `${name} was refused: ${error._tag}${problemIn(error, request)}`
  return Effect.fail(new AttemptFailed({ errorCode: "internal_error", retry: false, detail, cause: error }))
}

/** What is wrong with a request, without its values, and without messages of its schema, which may quote them. */
const problemIn = (error: CreateJobError, request: unknown): string => {
  if (error._tag !== "InvalidRequest") return ""
  const fields = error.errors.map(({ field, reason }) => `${field || "the request"} (${reason})`)
  return `: ${jsonProblem("request", request) ?? fields.join(", ")}`
}

/** Logs ever more rarely: the job looks again every second. */
const tellOfCap = ({ message }: SpendCapReached, waiting: string, { token }: Job): Effect.Effect<void> =>
  (token & (token - 1)) === 0 ? Effect.logWarning(`${waiting} wait: ${message}`) : Effect.void
