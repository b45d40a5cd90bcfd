import * as Context from "effect/Context"
import { JobEvents } from "../engine/index.ts"
import type { EmbeddedContext } from "./embeddedContext.ts"
import type { AttemptFailure } from "./EngineOptions.ts"

/** Passes what failed attempts threw to the program. The bus of events logs an exception or a rejection of the listener. */
export const reportErrors = (
  context: EmbeddedContext,
  onError: (error: unknown, failure: AttemptFailure) => void,
): void => {
  Context.get(context, JobEvents).listen((event) => {
    if (event.type !== "attempt_failed" && event.type !== "failed") return undefined
    const { attempt, durationMs, error, errorCode, jobId, kind, mode, projectId } = event
    if (attempt === undefined || durationMs === undefined) return undefined
    const retryInMs = event.type === "attempt_failed" ? event.retryInMs : undefined
    // Returned, because an async function gives a promise, whose rejection the bus reports.
    return onError(error, { jobId, projectId, kind, mode, attempt, errorCode, retryInMs, durationMs })
  })
}
