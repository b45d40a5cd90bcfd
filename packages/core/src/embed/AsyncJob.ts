import type { AttemptContext } from "../kinds/AttemptContext.ts"
import type { Attempt } from "./AttemptTypes.ts"

type Facts = Pick<AttemptContext<unknown>, "request" | "kindVersion" | "call" | "submitted" | "after">

/** The facts of a job that `run` of a kind with promises is given, alone or in a batch. */
export class AsyncJob {
  readonly request: unknown
  readonly #job: Facts

  constructor(job: Facts) {
    this.request = job.request
    this.#job = job
  }

  get jobId(): Attempt["jobId"] {
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

  get tags(): Attempt["tags"] {
    return this.#job.submitted.tags ?? []
  }

  get metadata(): Attempt["metadata"] {
    return this.#job.submitted.metadata ?? {}
  }

  get after(): Attempt["after"] {
    return this.#job.after
  }

  get schedule(): Attempt["schedule"] {
    const { schedule } = this.#job.submitted
    if (schedule === undefined) return undefined
    const { name, previousAt, tickAt } = schedule
    return { name, tickAt: new Date(tickAt), previousAt: previousAt === null ? null : new Date(previousAt) }
  }
}
