import * as Effect from "effect/Effect"
import { type CreateOutcome, JobStore, type NewJob, WakeUp } from "../ports/index.ts"
import type { Draft } from "./prepareJob.ts"

/** Whether the outcome is that of a job that waits, with which more is to be done. A store replaces its request by itself. */
export const asksForMore = ({ placement }: Draft, outcome: CreateOutcome | undefined): boolean =>
  placement.unique?.onDuplicate === "extend" && outcome?._tag === "Duplicate"

/**
 * Begins the delay of the job that has the scope again, as `unique.onDuplicate` asks for, as long as it waits for its first attempt. Once that has begun,
 * the scope is free, and the job is submitted again: it may find another one in its place.
 */
export const makeAfterDuplicate = Effect.gen(function* () {
  const store = yield* JobStore
  const wakeUp = yield* WakeUp
  return Effect.fnUntraced(function* (draft: Draft, job: NewJob, first: CreateOutcome | undefined) {
    let outcome = first
    while (asksForMore(draft, outcome) && outcome?._tag === "Duplicate") {
      const jobId = outcome.job.id
      const [changed] = yield* store.rescheduleJobs([{ jobId, delayMs: job.delayMs, queuedOnly: true }])
      if (changed === "Ready") return outcome
      if (changed === "Rescheduled") {
        // The new time may be sooner.
        yield* wakeUp.notify
        return outcome
      }
      ;[outcome] = yield* store.createJobs([job])
    }
    return outcome
  })
})
