import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { isTaggedError } from "../domain/index.ts"
import type { AttemptError, AttemptFailed } from "../kinds/AttemptContext.ts"

/** The cause of each error thrown to promise code, so that the code can catch and rethrow it without losing its meaning. */
const causes = new WeakMap<object, Cause.Cause<AttemptError>>()

/** Returns the error for promise code; `reason` if nothing failed and the step was interrupted. */
export const thrownFor = (cause: Cause.Cause<AttemptError>, reason: unknown): unknown => {
  const squashed: unknown = Cause.hasInterruptsOnly(cause) ? reason : Cause.squash(cause)
  // A primitive cannot be looked up again; it is still a defect.
  if (typeof squashed === "object" && squashed !== null) causes.set(squashed, cause)
  return squashed
}

/** Returns the failure that an error thrown by promise code stands for. */
export const failing = (thrown: unknown): Effect.Effect<never, AttemptError> => {
  const cause = typeof thrown === "object" && thrown !== null ? causes.get(thrown) : undefined
  if (cause !== undefined) return Effect.failCause(cause)
  return isTaggedError<AttemptFailed>(thrown, "AttemptFailed") ? Effect.fail(thrown) : Effect.die(thrown)
}
