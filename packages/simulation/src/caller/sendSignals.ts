import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { JobId } from "@kiln/core/domain"
import { approval, approvalMs } from "../messageKinds.ts"
import type { SignalAnswer } from "../SignalBooks.ts"
import type { CallerContext } from "./CallerContext.ts"

/** Sends a job its signal, sometimes two with different values, repeats each until there is an answer, and relies on that. */
export const sendSignals = (caller: CallerContext, jobId: JobId): Effect.Effect<void> =>
  Effect.forEach(
    Array.from({ length: caller.kernel.dice.chance(0.3) ? 2 : 1 }, (_, n) => `${jobId} ${n}`),
    (value) => sendSignal(caller, jobId, value),
    { concurrency: "unbounded", discard: true },
  )

const sendSignal = Effect.fnUntraced(function* (
  { door, kernel, principal, process, signals }: CallerContext,
  jobId: JobId,
  value: string,
) {
  // Often before the job waits for it, or after it has given up.
  yield* Effect.sleep(kernel.dice.between(0, 2 * approvalMs))
  const asked = { jobId, name: approval, value, owner: principal }
  const answer = yield* door
    .ask(process, `signal ${jobId}`, (engine) => engine.signalJob(asked))
    .pipe(
      Effect.map(({ isFirst }): SignalAnswer => (isFirst ? "first" : "later")),
      Effect.catchTags({
        JobFinished: () => Effect.succeed<SignalAnswer>("finished"),
        JobNotFound: () => Effect.succeed<SignalAnswer>("unknown"),
      }),
      Effect.retry({ schedule: Schedule.spaced("1 second") }),
      Effect.orDie,
    )
  signals.answered(jobId, value, answer)
})
