import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { isError } from "../domain/index.ts"
import type { JsonObject } from "../domain/givenValues.ts"
import { outsideOfCallers } from "../engine/spans.ts"
import type { AttemptError } from "../kinds/AttemptContext.ts"
import { type BatchedJob, type BatchedResult, outcomesBug, type RunBatch } from "../kinds/JobBatch.ts"
import { KindBug } from "../kinds/KindBug.ts"
import { AsyncJob } from "./asyncAttempt.ts"
import { failing } from "./AttemptParts.ts"
import type { AsyncBatchRun, BatchJob, BatchOutcome } from "./AttemptTypes.ts"
import { failure } from "./failure.ts"
import { resultOf } from "./resultOf.ts"

/** Runs a kind's function for batches. An interruption aborts its signal, and does not wait for it. */
export const runAsyncBatch =
  (run: AsyncBatchRun): RunBatch<unknown> =>
  (jobs) =>
    Effect.withFiber((fiber) =>
      Effect.callback<ReadonlyArray<BatchedResult>, AttemptError>((resume) => {
        const controller = new AbortController()
        const asked = jobs.map((job) => new AsyncBatchJob(job, fiber.context))
        const mode = jobs[0]?.mode ?? "sandbox"
        const end = (exit: Effect.Effect<ReadonlyArray<BatchedResult>, AttemptError>): void => {
          for (const job of asked) job.end()
          resume(exit)
        }
        const failed = (thrown: unknown) => end(failing(thrown))
        try {
          const started = outsideOfCallers(() => run({ jobs: asked, mode, signal: controller.signal, failure }))
          Promise.resolve(started).then((outcomes) => end(outcomesOf(outcomes, jobs.length)), failed)
        } catch (thrown) {
          failed(thrown)
        }
        return Effect.sync(() => controller.abort())
      }),
    )

class AsyncBatchJob extends AsyncJob implements BatchJob {
  readonly #job: BatchedJob<unknown>
  readonly #context: Context.Context<never>
  #controller: AbortController | undefined
  #hasLeft = false
  #isOver = false

  constructor(job: BatchedJob<unknown>, context: Context.Context<never>) {
    super(job)
    this.#job = job
    this.#context = context
    job.onLeave(() => {
      this.#hasLeft = true
      this.#controller?.abort()
    })
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#hasLeft) this.#controller.abort()
    return this.#controller.signal
  }

  get progress(): BatchJob["progress"] {
    return (value, message) => {
      if (!this.#isOver && !this.#hasLeft) Effect.runSyncWith(this.#context)(this.#job.progress(value, message))
    }
  }

  /** Ends the job's part in the batch: it reports nothing any more. */
  end(): void {
    this.#isOver = true
  }
}

/** Reads what the function returned. JavaScript code may return anything. */
const outcomesOf = (
  outcomes: ReadonlyArray<BatchOutcome<JsonObject>>,
  jobs: number,
): Effect.Effect<ReadonlyArray<BatchedResult>, AttemptError> => {
  if (!Array.isArray(outcomes))
    return Effect.die(
      new KindBug(
        "run of a kind with batch must return a list: one { output: { … } } or error for each of jobs, in their order",
      ),
    )
  // A list with holes has fewer outcomes than its length says.
  const all = Array.from(outcomes)
  const bug = outcomesBug(all.length, jobs)
  return bug === undefined ? Effect.succeed(all.map(exitOf)) : Effect.die(bug)
}

const exitOf = (outcome: BatchOutcome<JsonObject> | undefined): BatchedResult => {
  try {
    return isError(outcome) ? Effect.runSyncExit(failing(outcome)) : resultOf(outcome)
  } catch (error) {
    return Exit.die(error)
  }
}
