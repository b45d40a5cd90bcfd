import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { signalJob } from "@kiln/core/effect"
import { WakeUp } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { answer } from "../Output.ts"
import { recordChange } from "../recordChange.ts"
import { withStores } from "../withStores.ts"
import { unknownJob } from "./jobChange.ts"

const flags = {
  id: Argument.String("JOB_ID").pipe(Argument.withDescription("The job's id, from `kiln job list`")),
  name: Argument.String("NAME").pipe(Argument.withDescription("The name that the job waits for")),
  value: Flag.String("value").pipe(
    Flag.withDescription('The value, as JSON: --value \'{"by":"Ada"}\'. Default: null'),
    Flag.withDefault("null"),
  ),
}

const jsonOf = (text: string) =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(JSON.parse(text) as unknown)
    } catch {
      return misused("--value must be JSON; put text in double quotes, within single ones for the shell")
    }
  })

const isAccepted = (outcomes: unknown): boolean => (outcomes as ReadonlyArray<unknown>)[0] === "Accepted"

export const jobSignal = Command.make("signal", flags, ({ id: jobId, name, value }) =>
  withStores(
    Effect.gen(function* () {
      const asked = { jobId, name, value: yield* jsonOf(value) }
      const { isFirst } = yield* signalJob(asked).pipe(
        recordChange({ action: "job.signal", subject: jobId }, isAccepted, () => ({ name })),
        Effect.catchTags({
          JobNotFound: () => unknownJob(jobId),
          JobFinished: () => failed(`${jobId} is finished already`),
          InvalidRequest: (error) => misused(error.message),
        }),
      )
      yield* answer({
        json: { job_id: jobId, name, is_first: isFirst },
        text: isFirst
          ? `${jobId} has received the signal ${name}`
          : `${jobId} had received another value of the signal ${name} before, which counts`,
      })
    }).pipe(Effect.provide(WakeUp.layer)),
  ),
).pipe(
  Command.withDescription(
    "Send a signal to a job that waits for it, now or later; the first value of each name counts",
  ),
)
