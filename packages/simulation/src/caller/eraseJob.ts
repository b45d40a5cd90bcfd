import * as Effect from "effect/Effect"
import type { Job, JobId } from "@kiln/core/domain"
import type { CallerContext } from "./CallerContext.ts"
import { poll } from "./followJob.ts"

/** Erases a job, and checks every later response. */
export const eraseJob = (caller: CallerContext, job: Job): Effect.Effect<void> =>
  Effect.gen(function* () {
    yield* caller.insist(`erase ${job.id}`, (engine) =>
      // The deletion stands even where the blobs cannot be removed yet; a record that is gone by age is as good.
      engine.eraseJobData(caller.principal, job.id).pipe(
        Effect.catchTags({
          BlobUnavailable: () => Effect.void,
          JobNotFound: () => Effect.void,
          JobProcessing: () => Effect.sync(() => caller.kernel.violate("a finished job never changes", job.id)),
        }),
      ),
    )
    const after = yield* poll(caller, job.id)
    if (after !== undefined && (after.request !== null || after.output !== null || after.files.length > 0))
      caller.kernel.violate("deleted data is unreachable", `${job.id} still shows its data`)
    for (const file of job.files) {
      const found = yield* caller.insist(`look for ${file.id}`, (engine) =>
        Effect.catchTag(engine.findFile(file.id), "FileGone", () => Effect.succeed(undefined)),
      )
      if (found !== undefined) caller.kernel.violate("deleted data is unreachable", `${file.id} is still found`)
    }
    caller.coverage.note("an erased job's data is gone")
  })

/** Only finished jobs can be erased. */
export const eraseTooEarly = (caller: CallerContext, jobId: JobId) =>
  caller.door
    .ask(caller.process, `erase ${jobId} early`, (engine) => engine.eraseJobData(caller.principal, jobId))
    .pipe(
      Effect.match({
        onSuccess: () => undefined,
        onFailure: ({ _tag }) => {
          if (_tag === "JobProcessing") caller.coverage.note("erasure of an unfinished job is refused")
        },
      }),
    )
