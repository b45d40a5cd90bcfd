import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Usage } from "../domain/index.ts"
import { isError } from "../domain/index.ts"
import type { JsonObject } from "../domain/Json.ts"
import { outsideOfCallers } from "../engine/outsideOfCallers.ts"
import type { AttemptError } from "../kinds/AttemptContext.ts"
import { type BatchedJob, type BatchedResult, outcomesBug, type RunBatch } from "../kinds/JobBatch.ts"
import { KindBug } from "../kinds/KindBug.ts"
import { failing } from "./AttemptParts.ts"
import type { AsyncBatchRun, BatchJob, BatchOutcome } from "./BatchTypes.ts"
import { failure } from "./failure.ts"
import type { AttemptOutcome } from "./AttemptTypes.ts"
import { resultBug } from "./resultBug.ts"
import { tickOf } from "./tickOf.ts"

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

class AsyncBatchJob implements BatchJob {
  readonly request: unknown
  readonly #job: BatchedJob<unknown>
  readonly #context: Context.Context<never>
  #controller: AbortController | undefined
  #hasLeft = false
  #isOver = false

  constructor(job: BatchedJob<unknown>, context: Context.Context<never>) {
    this.request = job.request
    this.#job = job
    this.#context = context
    job.onLeave(() => {
      this.#hasLeft = true
      this.#controller?.abort()
    })
  }

  get jobId(): BatchJob["jobId"] {
    return this.#job.call.jobId
  }

  get attempt(): number {
    return this.#job.call.attempt
  }

  get failures(): number {
    return this.#job.call.failures
  }

  get kindVersion(): number {
    return this.#job.kindVersion
  }

  get tags(): BatchJob["tags"] {
    return this.#job.submitted.tags ?? []
  }

  get metadata(): BatchJob["metadata"] {
    return this.#job.submitted.metadata ?? {}
  }

  get after(): BatchJob["after"] {
    return this.#job.after
  }

  get schedule(): BatchJob["schedule"] {
    return tickOf(this.#job.submitted)
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
    if (isError(outcome)) return Effect.runSyncExit(failing(outcome))
    const bug = resultBug(outcome)
    if (bug !== undefined) return Exit.die(bug)
    const { output, usage = {}, warningCode }: Partial<AttemptOutcome<JsonObject>> = outcome ?? {}
    // Without an output, the engine decides whether the kind needs it.
    return Exit.succeed({ output: output as JsonObject, files: [], usage: usage as Usage, warningCode })
  } catch (error) {
    return Exit.die(error)
  }
}
