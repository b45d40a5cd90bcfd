import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Usage } from "../domain/Billing.ts"
import type { JsonObject, OutputFile } from "../domain/index.ts"
import { isError, isTaggedError, readSafely } from "../domain/givenValues.ts"
import type { AttemptFailed, AttemptResult } from "../kinds/AttemptContext.ts"
import { KindBug } from "../kinds/KindBug.ts"
import type { AttemptOutcome } from "./AttemptTypes.ts"

/** Reads the result that `run` returned. JavaScript code may return anything, or throw when it is read. */
export const resultOf = (
  outcome: Partial<AttemptOutcome<JsonObject>> | undefined,
  files: ReadonlyArray<OutputFile> = [],
): Exit.Exit<AttemptResult> => {
  try {
    const bug = resultBug(outcome)
    if (bug !== undefined) return Exit.die(bug)
    const { output, usage = {}, warningCode } = outcome ?? {}
    // Without an output, the engine decides whether the kind needs it.
    return Exit.succeed({ output: output as JsonObject, files, usage: usage as Usage, warningCode })
  } catch (error) {
    return Exit.die(error)
  }
}

/** The bug of a function that returns something else than a result; `undefined` if it returns one, or nothing. */
const resultBug = (outcome: unknown): KindBug | undefined => {
  if (outcome === undefined) return undefined
  // Errors of kiln are effects, too.
  if (Effect.isEffect(outcome) && !isError(outcome))
    return new KindBug("run returned an Effect: define the kind with JobKind of @kiln/core/kinds, or run the Effect")
  if (typeof outcome !== "object" || outcome === null || Array.isArray(outcome)) {
    const shown = outcome === null ? "null" : Array.isArray(outcome) ? "a list" : `a ${typeof outcome}`
    return new KindBug(`run returned ${shown}: return { output: { … } }, or nothing`)
  }
  if (readSafely(() => "output" in outcome) !== false) return undefined
  if (isError(outcome)) return errorBug(outcome)
  const names = readSafely(() => Object.keys(outcome)) ?? []
  const wrong = names.find((name) => name !== "usage" && name !== "warningCode")
  return wrong === undefined
    ? undefined
    : new KindBug(`run returned an object with "${wrong}" and without "output": return { output: { ${wrong}, … } }`)
}

const errorBug = (returned: Error): KindBug =>
  isTaggedError<AttemptFailed>(returned, "AttemptFailed")
    ? new KindBug(`run returned failure("${returned.errorCode}"): write throw failure("${returned.errorCode}")`)
    : new KindBug(`run returned ${returned.name}: throw it, or return { output: { … } }`, { cause: returned })
