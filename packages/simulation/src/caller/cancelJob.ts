import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { isFinished, type JobId } from "@kiln/core/domain"
import type { CallerContext } from "./CallerContext.ts"

/** An operator cancels a job some time after it was accepted, repeats the call until it gets a response, and relies on it. */
export const cancelJob = Effect.fnUntraced(function* (caller: CallerContext, jobId: JobId): Effect.fn.Return<void> {
  const { door, kernel, process, coverage, watch } = caller
  yield* Effect.sleep(kernel.dice.between(0, 8_000))
  watch.cancelAsked.add(jobId)
  const answer = yield* door
    .ask(process, `cancel ${jobId}`, ({ operator }) => operator.cancel(jobId))
    .pipe(
      Effect.as("canceled" as const),
      Effect.catchTags({
        JobFinished: () => Effect.succeed("finished" as const),
        JobNotFound: () => Effect.succeed("unknown" as const),
      }),
      Effect.retry({ schedule: Schedule.spaced("1 second") }),
      Effect.orDie,
    )
  const job = watch.jobs.get(jobId)
  if (job === undefined) {
    if (!watch.removed.has(jobId)) kernel.violate("no job is lost", `${jobId} was accepted and is not stored`)
    return
  }
  if (answer === "unknown")
    kernel.violate("a job is canceled when an operator says so", `${jobId} is there and was not found`)
  if (answer === "finished" && !isFinished(job))
    kernel.violate("a job is canceled when an operator says so", `${jobId} is not finished`)
  if (answer === "canceled" && job.errorCode !== "canceled_by_operator")
    kernel.violate("a job is canceled when an operator says so", `${jobId} is said to be canceled and is ${job.status}`)
  if (answer === "canceled") coverage.note("a job is canceled")
  else coverage.note("a finished job is not canceled")
})
