import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { type AcceptedJob, acceptedOf, type CreateJobError, type SettleJob } from "./acceptedOf.ts"
import type { Draft } from "./prepareJob.ts"

/** The outcome of each job of a list, in its order. */
export type JobOutcomes = ReadonlyArray<Result.Result<AcceptedJob, CreateJobError>>

/**
 * Jobs of one list that may wait for the store at once: two batches in progress and the next one. Jobs of other callers get in
 * between, and a long list is not held in memory twice.
 */
const maxWaiting = 1_500

/** One list on its way to the store. */
export class JobList {
  readonly #drafts: ReadonlyArray<Result.Result<Draft, CreateJobError>>
  readonly #push: (draft: Draft, settle: SettleJob) => void
  readonly #done: (exit: Exit.Exit<JobOutcomes>) => void
  readonly #outcomes: Array<Result.Result<AcceptedJob, CreateJobError>> = []
  #defect: Exit.Exit<never> | undefined
  #next = 0
  #waiting = 0
  #pushing = false
  #over = false

  /** `done` is called once, with all outcomes or with the first defect. */
  constructor(
    drafts: ReadonlyArray<Result.Result<Draft, CreateJobError>>,
    push: (draft: Draft, settle: SettleJob) => void,
    done: (exit: Exit.Exit<JobOutcomes>) => void,
  ) {
    this.#drafts = drafts
    this.#push = push
    this.#done = done
  }

  /** Pushes as many drafts as may wait, in order. */
  pushMore(): void {
    // A closed engine settles each job while it is pushed: the loop goes on by itself, without a deeper stack.
    if (this.#pushing) return
    this.#pushing = true
    while (this.#next < this.#drafts.length && this.#waiting < maxWaiting && !this.#over) this.#pushNext()
    this.#pushing = false
    if (this.#waiting > 0 || this.#over) return
    this.#over = true
    this.#done(this.#defect ?? Exit.succeed(this.#outcomes))
  }

  /** Drops what was not pushed yet. `done` is not called any more. */
  stop(): void {
    this.#over = true
  }

  #pushNext(): void {
    const index = this.#next
    this.#next += 1
    const draft = this.#drafts[index]
    if (draft === undefined) return
    if (Result.isFailure(draft)) {
      this.#outcomes[index] = Result.fail(draft.failure)
      return
    }
    this.#waiting += 1
    try {
      this.#push(draft.success, (exit) => {
        this.#waiting -= 1
        this.#record(index, exit)
        this.pushMore()
      })
    } catch (error) {
      this.#waiting -= 1
      this.#fail(Exit.die(error))
    }
  }

  #record(index: number, exit: Parameters<SettleJob>[0]): void {
    try {
      if (Exit.isSuccess(exit)) {
        this.#outcomes[index] = acceptedOf(exit.value)
        return
      }
      const error = Option.getOrUndefined(Exit.findErrorOption(exit))
      if (error === undefined) this.#fail(exit as Exit.Exit<never>)
      else this.#outcomes[index] = Result.fail(error)
    } catch (error) {
      this.#fail(Exit.die(error))
    }
  }

  /** A defect ends the list, once the jobs that wait are settled. */
  #fail(defect: Exit.Exit<never>): void {
    this.#defect ??= defect
    this.#next = this.#drafts.length
  }
}
