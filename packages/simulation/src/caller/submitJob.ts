import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { type JobId, type JsonObject, priorities, type UploadId } from "@kiln/core/domain"
import type { JobKind } from "@kiln/core/kinds"
import type { CallerContext } from "./CallerContext.ts"

/** Submits a job until the outcome is known, sometimes twice concurrently; returns `undefined` if it is refused permanently. */
export const submitJob = (caller: CallerContext, kind: JobKind, input: JsonObject, key: string) =>
  Effect.gen(function* () {
    const times = caller.kernel.dice.chance(0.2) ? [1, 2] : [1]
    const answers = yield* Effect.forEach(times, () => submitOnce(caller, kind, input, key), {
      concurrency: "unbounded",
    })
    const ids = new Set(answers.filter((id) => id !== undefined).filter((id) => !caller.watch.removed.has(id)))
    if (ids.size > 1) caller.kernel.violate("one job per idempotency key", `${key}: ${[...ids].join(", ")}`)
    return answers.find((id) => id !== undefined)
  })

const submitOnce = (
  caller: CallerContext,
  kind: JobKind,
  input: JsonObject,
  key: string,
): Effect.Effect<JobId | undefined> => {
  const { dice } = caller.kernel
  const placement = { priority: dice.pick(priorities), delayMs: dice.chance(0.2) ? dice.between(1, 5_000) : 0 }
  let unanswered = 0
  const once = caller.door.ask(caller.process, `create ${kind.name} ${key}`, (engine) =>
    engine.createJob(caller.grant, kind, input, key, placement),
  )
  return once.pipe(
    Effect.map(({ job, replayed }) => {
      if (replayed && unanswered > 0) caller.coverage.note("a replay after a lost response")
      if (!caller.watch.jobs.has(job.id) && !caller.watch.removed.has(job.id))
        caller.kernel.violate("a 202 survives", `${job.id} was accepted and is not stored`)
      return job.id
    }),
    Effect.tapError((error) =>
      Effect.sync(() => {
        unanswered += 1
        if (error._tag === "QueueFull") caller.coverage.note("the queue is full")
      }),
    ),
    Effect.catchTags({
      InvalidRequest: (error) => impossible(caller, `${key}: ${JSON.stringify(error)}`),
      IdempotencyKeyReused: () => impossible(caller, `${key} was used for nothing else`),
      UploadNotReady: () => impossible(caller, `${key}: its file has arrived`),
      UploadNotFound: () =>
        uploadOf(caller, kind, input)?.erased === false ? impossible(caller, `${key}: its upload is there`) : gone,
      UploadExpired: () => gone,
      // Only by a job of this very request, whose answer was lost and whose record is gone by age: otherwise it is replayed.
      UploadAlreadyUsed: () => {
        const user = uploadOf(caller, kind, input)?.jobId
        const isThere = user !== undefined && user !== null && caller.watch.jobs.has(user)
        return isThere ? impossible(caller, `${key}: ${user} used its upload`) : gone
      },
    }),
    Effect.retry({ schedule: Schedule.spaced("1 second") }),
    Effect.orDie,
  )
}

const gone: Effect.Effect<undefined> = Effect.succeed(undefined)

const uploadOf = (caller: CallerContext, { upload = "" }: JobKind, input: JsonObject) =>
  caller.watch.uploads.get(input[upload] as UploadId)

const impossible = (caller: CallerContext, what: string): Effect.Effect<undefined> =>
  Effect.sync(() => {
    caller.kernel.violate("refusals are true", what)
    return undefined
  })

/** One upload feeds at most one job. */
export const useUploadAgain = (caller: CallerContext, kind: JobKind, uploadId: UploadId, first: JobId) => {
  const again = `${first}-again`
  return caller.door
    .ask(caller.process, `use ${uploadId} again`, (engine) =>
      engine.createJob(caller.grant, kind, caller.kinds.inputOf(kind, uploadId, again), again),
    )
    .pipe(
      Effect.match({
        onSuccess: () => caller.kernel.violate("one upload, at most one job", uploadId),
        onFailure: ({ _tag }) => {
          if (_tag === "UploadAlreadyUsed") caller.coverage.note("a second job for an upload is refused")
        },
      }),
    )
}

/** An idempotency key permanently identifies one request. */
export const reuseKey = (
  caller: CallerContext,
  kind: JobKind,
  uploadId: UploadId | null,
  key: string,
  first: JobId,
) => {
  const asked = caller.kinds.otherInput(kind, caller.kinds.inputOf(kind, uploadId, key))
  if (asked === undefined) return Effect.void
  return caller.door
    .ask(caller.process, `reuse ${key}`, (engine) => engine.createJob(caller.grant, kind, asked, key))
    .pipe(
      Effect.match({
        onSuccess: () => {
          if (!caller.watch.removed.has(first))
            caller.kernel.violate("one job per idempotency key", `${key} was reused`)
        },
        onFailure: ({ _tag }) => {
          if (_tag === "IdempotencyKeyReused")
            caller.coverage.note("an idempotency key is reused for a different request")
        },
      }),
    )
}
