import * as Effect from "effect/Effect"
import type { CallerContext } from "./CallerContext.ts"
import { cancelJob } from "./cancelJob.ts"
import { narration } from "../messageKinds.ts"
import { eraseJob, eraseTooEarly } from "./eraseJob.ts"
import { beAStranger, fetchFiles, followJob, readStream } from "./followJob.ts"
import { sendFile } from "./sendFile.ts"
import { sendSignals } from "./sendSignals.ts"
import { reuseKey, submitJob, useUploadAgain } from "./submitJob.ts"

/** Concurrent jobs of one caller. */
const concurrency = 3

/**
 * A caller that relies on the documented guarantees: it repeats unanswered requests with the same key, polls, downloads,
 * erases, and compares every response with earlier ones.
 */
export const callAgainAndAgain = (caller: CallerContext, jobs: number): Effect.Effect<void> =>
  Effect.forEach(
    Array.from({ length: jobs }, (_, n) => n + 1),
    (n) => oneJob(caller, `${caller.process.name}-${n}`),
    { concurrency, discard: true },
  )

const oneJob = Effect.fnUntraced(function* (caller: CallerContext, key: string): Effect.fn.Return<void> {
  const { dice } = caller.kernel
  yield* Effect.sleep(dice.between(0, 4_000))
  const kind = dice.pick(caller.kinds.all)
  const uploadId = kind.upload !== undefined ? yield* sendFile(caller) : null
  if (uploadId === undefined) return
  const jobId = yield* submitJob(caller, kind, caller.kinds.inputOf(kind, uploadId, key), key)
  if (jobId === undefined) return
  if (uploadId !== null && dice.chance(0.2)) yield* useUploadAgain(caller, kind, uploadId, jobId)
  if (dice.chance(0.2)) yield* reuseKey(caller, kind, uploadId, key, jobId)
  if (dice.chance(0.1)) yield* beAStranger(caller, jobId)
  if (dice.chance(0.1)) yield* eraseTooEarly(caller, jobId)
  if (dice.chance(0.1)) yield* cancelJob(caller, jobId)
  const [job] = yield* Effect.all(
    [
      followJob(caller, jobId),
      kind.chunkProblem === undefined ? Effect.void : readStream(caller, jobId),
      kind.name === narration.name && dice.chance(0.8) ? sendSignals(caller, jobId) : Effect.void,
    ],
    { concurrency: "unbounded" },
  )
  if (job === undefined) return
  yield* fetchFiles(caller, job)
  if (dice.chance(0.4)) yield* eraseJob(caller, job)
})
