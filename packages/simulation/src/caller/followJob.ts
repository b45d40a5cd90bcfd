import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { isFinished, type Job, type JobId, type JobStatus } from "@kiln/core/domain"
import { type CallerContext, digest } from "./CallerContext.ts"

const order: Record<JobStatus, number> = { queued: 0, processing: 1, done: 2, failed: 2 }

/** Polls until the job is finished; `undefined` when its record is gone by age. */
export const followJob = (caller: CallerContext, jobId: JobId): Effect.Effect<Job | undefined> =>
  Effect.gen(function* () {
    let last: Job | undefined
    while (true) {
      const job = yield* poll(caller, jobId)
      if (job === undefined) return undefined
      if (last !== undefined && order[job.status] < order[last.status])
        caller.kernel.violate("a status never goes backwards", `${jobId}: ${last.status}, then ${job.status}`)
      if (isFinished(job)) return job
      last = job
      yield* Effect.sleep(caller.kernel.dice.between(500, 4_000))
    }
  })

/** The job as it is now; `undefined` when its record is gone by age. */
export const poll = (caller: CallerContext, jobId: JobId): Effect.Effect<Job | undefined> =>
  caller
    .insist(`poll ${jobId}`, (engine) =>
      Effect.catchTag(engine.getJob(caller.principal, jobId), "JobNotFound", () => Effect.succeed(undefined)),
    )
    .pipe(
      Effect.tap((job) =>
        Effect.sync(() => {
          if (job === undefined && !caller.watch.removed.has(jobId))
            caller.kernel.violate("no job is lost", `${jobId} was accepted and is not found`)
        }),
      ),
    )

/** Downloads each file of a finished job: either the bytes of its row or none. */
export const fetchFiles = (caller: CallerContext, job: Job): Effect.Effect<void> =>
  Effect.forEach(
    job.files,
    (file) =>
      caller
        .insist(`fetch ${file.id}`, (engine) =>
          Effect.gen(function* () {
            const found = yield* engine.findFile(file.id)
            const { content } = yield* engine.openFile(found)
            return Buffer.concat(yield* Stream.runCollect(content))
          }).pipe(Effect.catchTag("FileGone", () => Effect.succeed(undefined))),
        )
        .pipe(
          Effect.map((bytes) => {
            if (bytes !== undefined && digest([bytes]) !== file.sha256)
              caller.kernel.violate("a file matches its row", file.blobKey)
            if (bytes === undefined && caller.watch.jobs.get(job.id)?.retained === "kept")
              caller.kernel.violate("a file matches its row", `${file.blobKey} is gone`)
          }),
        ),
    { discard: true },
  )

/** Only the key that created a job can see it. */
export const beAStranger = (caller: CallerContext, jobId: JobId): Effect.Effect<void> => {
  const { door, kernel, process, stranger } = caller
  const seen = () => kernel.violate("nobody else sees a job", jobId)
  const tries = [
    door.ask(process, `stranger reads ${jobId}`, (engine) => engine.pollJob(stranger, jobId)),
    door.ask(process, `stranger erases ${jobId}`, (engine) => engine.eraseJobData(stranger, jobId)),
  ]
  return Effect.forEach(
    tries,
    (answer) =>
      // Even "not finished yet" would tell that there is one.
      Effect.match(answer, { onSuccess: seen, onFailure: ({ _tag }) => void (_tag === "JobProcessing" && seen()) }),
    { discard: true },
  )
}

/** Reads the chunks of a job until its end. After a break, it goes on after the last chunk, often in another process. */
export const readStream = Effect.fnUntraced(function* (caller: CallerContext, jobId: JobId): Effect.fn.Return<void> {
  const { coverage, kernel } = caller
  let next = 0
  for (let isOver = false; !isOver;) {
    if (next > 0) coverage.note("a reader goes on after a break")
    const from = next
    let at = from
    const read = (engine: Parameters<Parameters<typeof caller.insist>[1]>[0]) =>
      Stream.runForEach(engine.streamChunks(jobId, from), (chunk) =>
        Effect.sync(() => {
          if (chunk.index !== at)
            kernel.violate("a stream has no gaps", `${jobId}: ${chunk.index} came instead of ${at}`)
          caller.streams.read(jobId, chunk)
          at += 1
          next = Math.max(next, at)
        }),
      )
    isOver = yield* caller.door.ask(caller.process, `stream ${jobId} from ${from}`, read).pipe(
      Effect.as(true),
      Effect.catchTag("NoAnswer", () => Effect.as(Effect.sleep(1_000), false)),
    )
    if (isOver) caller.streams.ended(jobId, at)
  }
})
