import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { InvalidRequest } from "../domain/index.ts"
import { type Accepted, acceptedOf, type CreateJobError, type SettleJob } from "./acceptedOf.ts"
import type { Draft } from "./prepareJob.ts"

/** What became of each job of a list, in its order. */
export type JobOutcomes = ReadonlyArray<Result.Result<Accepted, CreateJobError>>

/**
 * Jobs of one list that may wait for the store at once: a batch in progress and the next one. Jobs of other callers get in
 * between, and a long list is not held in memory twice.
 */
const maxWaiting = 1_000

/**
 * Pushes the drafts in order and calls `done` once, with all outcomes or with the first defect. The returned effect stops it:
 * drafts that were not pushed yet are dropped, and `done` is not called.
 */
export const pushAll = (
  drafts: ReadonlyArray<Result.Result<Draft, InvalidRequest>>,
  push: (draft: Draft, settle: SettleJob) => void,
  done: (exit: Exit.Exit<JobOutcomes>) => void,
): Effect.Effect<void> => {
  const outcomes: Array<Result.Result<Accepted, CreateJobError>> = []
  let defect: Exit.Exit<never> | undefined
  let next = 0
  let waiting = 0
  let pushing = false
  let over = false

  const record = (index: number, exit: Parameters<SettleJob>[0]): void => {
    if (Exit.isSuccess(exit)) {
      outcomes[index] = acceptedOf(exit.value)
      return
    }
    const error = Option.getOrUndefined(Exit.findErrorOption(exit))
    if (error === undefined) defect ??= exit as Exit.Exit<never>
    else outcomes[index] = Result.fail(error)
  }
  /** An exception ends the list with a defect, once the jobs that wait are settled. */
  const orDefect = (run: () => void): boolean => {
    try {
      run()
      return true
    } catch (error) {
      defect ??= Exit.die(error)
      return false
    }
  }
  const pushOne = (index: number, draft: Draft): void => {
    waiting += 1
    const settle: SettleJob = (exit) => {
      waiting -= 1
      orDefect(() => record(index, exit))
      pushMore()
    }
    if (!orDefect(() => push(draft, settle))) waiting -= 1
  }
  const pushMore = (): void => {
    // A closed engine settles each job while it is pushed: the loop goes on by itself, without a deeper stack.
    if (pushing) return
    pushing = true
    while (next < drafts.length && waiting < maxWaiting && defect === undefined && !over) {
      const index = next++
      const draft = drafts[index]!
      if (Result.isFailure(draft)) outcomes[index] = Result.fail(draft.failure)
      else pushOne(index, draft.success)
    }
    pushing = false
    if (waiting > 0 || over) return
    over = true
    done(defect ?? Exit.succeed(outcomes))
  }
  pushMore()
  return Effect.sync(() => {
    over = true
  })
}
