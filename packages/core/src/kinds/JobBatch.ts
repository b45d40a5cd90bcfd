import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type { JobMode, JsonObject } from "../domain/index.ts"
import type { AttemptContext, AttemptError, AttemptResult } from "./AttemptContext.ts"
import { KindBug } from "./KindBug.ts"
import type { BatchOptions } from "./KindDefinition.ts"

/**
 * A job of a batch. It has its own attempt, lease and fencing token. It has no steps, files or waits, because a job that must wait would
 * hold up the others.
 */
export interface BatchedJob<Request> extends Pick<
  AttemptContext<Request>,
  "request" | "kindVersion" | "mode" | "call" | "submitted" | "after" | "progress"
> {
  /**
   * Calls the function if the job leaves the batch early: it was canceled or taken over, it took too long, or the worker stops. Its outcome
   * is ignored then; the other jobs go on.
   */
  readonly onLeave: (call: () => void) => void
}

/** The outcome of one job of a batch. */
export type BatchedResult<Output = JsonObject> = Exit.Exit<AttemptResult<Output>, AttemptError>

/**
 * Runs a batch. Returns an outcome for each job, in the order of the jobs; a failure of the effect is that of every job. It is
 * interrupted when all jobs have left the batch.
 */
export type RunBatch<Request, Output = JsonObject> = (
  jobs: ReadonlyArray<BatchedJob<Request>>,
) => Effect.Effect<ReadonlyArray<BatchedResult<Output>>, AttemptError>

/** The batches of a kind. */
export interface KindBatch extends BatchOptions {
  readonly run: (
    mode: JobMode,
    jobs: ReadonlyArray<BatchedJob<unknown>>,
  ) => Effect.Effect<ReadonlyArray<BatchedResult>, AttemptError>
}

/** Makes a job of a batch of the context of its attempt. */
export const batchedJob = <Request>(
  attempt: AttemptContext<Request>,
  onLeave: BatchedJob<Request>["onLeave"],
): BatchedJob<Request> => ({
  request: attempt.request,
  kindVersion: attempt.kindVersion,
  mode: attempt.mode,
  call: attempt.call,
  submitted: attempt.submitted,
  after: attempt.after,
  progress: (value, message) => attempt.progress(value, message),
  onLeave,
})

/** Returns the bug of a batch whose number of outcomes is wrong; `undefined` if it has one for each job. */
export const outcomesBug = (outcomes: number, jobs: number): KindBug | undefined =>
  outcomes === jobs
    ? undefined
    : new KindBug(
        `run returned ${outcomes} ${outcomes === 1 ? "outcome" : "outcomes"} for a batch of ${jobs}: return one for each of jobs, in their order`,
      )

/** Runs a batch of one job. */
export const alone = <Request>(
  attempt: AttemptContext<Request>,
  run: RunBatch<Request>,
): Effect.Effect<AttemptResult, AttemptError> =>
  Effect.flatMap(run([batchedJob(attempt, () => undefined)]), (exits) => {
    const [exit] = exits
    return exit !== undefined && exits.length === 1 ? exit : Effect.die(outcomesBug(exits.length, 1))
  })
