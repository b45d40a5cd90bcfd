import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { submittedOf } from "../../domain/index.ts"
import { type AttemptError, AttemptFailed, type AttemptResult } from "../../kinds/AttemptContext.ts"
import { JobEvents } from "../../engine/JobEvents.ts"
import { JobDirectory, JobStore } from "../../ports/index.ts"
import type { Attempt } from "./Attempt.ts"
import { EmittedChunks } from "./EmittedChunks.ts"
import { attemptContexts } from "./AttemptContext.ts"
import { AttemptMeter } from "../metrics/AttemptMeter.ts"
import { makeParentCheck } from "./canceledParents.ts"
import { awaitPrerequisites } from "./prerequisites.ts"
import { retrying } from "./retrying.ts"
import { storeNow } from "./storeNow.ts"
import type { Slots } from "../claiming/Slots.ts"

/** Returns what does the work of an attempt, for the attempts of a worker. It can be interrupted. */
export const attemptWork = Effect.fnUntraced(function* (slots: Slots) {
  const { isolation, watch } = slots
  const now = () => watch.now()
  const contextOf = yield* attemptContexts(watch)
  const meter = yield* AttemptMeter
  const checkParent = yield* makeParentCheck
  const events = yield* JobEvents
  const fork = Effect.runForkWith(yield* Effect.context())
  const services = { store: yield* JobStore, directory: yield* JobDirectory }

  /** Waits for the jobs that this one starts after, before the attempt takes part of a rate. `undefined` for most jobs. */
  const prerequisitesOf = (attempt: Attempt): Effect.Effect<void, AttemptError> | undefined => {
    const { job } = attempt.claim
    const { after } = submittedOf(job)
    if (after === undefined) return undefined
    const finished = awaitPrerequisites(services, job, after, () => storeNow(attempt, watch))
    return Effect.matchEffect(finished, {
      onSuccess: (jobs) => Effect.sync(() => void (attempt.after = jobs)),
      onFailure: (error) => {
        if (error._tag === "AttemptParked") slots.awaited.add(after)
        return Effect.fail(error)
      },
    })
  }

  /** Runs the kind. An exception is a defect. */
  const runKind = (attempt: Attempt): Effect.Effect<AttemptResult, AttemptError> => {
    const { claim, kind } = attempt
    isolation.begin(attempt.isolated, now)
    attempt.hasBegun = true
    // It was valid when the job was accepted, for this version of the kind or another.
    const request = kind.reader.readStored(attempt.claim.job.request)
    if (Result.isFailure(request)) return notReadable
    const checked = checkParent(claim)
    const run = kind.chunkProblem === undefined ? runOn : runEmitting
    return checked === undefined
      ? run(attempt, request.success)
      : Effect.andThen(
          checked,
          Effect.suspend(() => run(attempt, request.success)),
        )
  }

  const runOn = (attempt: Attempt, request: unknown) => inTime(attempt, attempt.kind.run(contextOf(attempt, request)))

  /** Runs a kind that emits chunks. Its result is not written before they are. */
  const runEmitting = Effect.fnUntraced(function* (attempt: Attempt, request: unknown) {
    const { claim, kind } = attempt
    const { store } = services
    // Only the first claim of a job finds none for sure.
    const kept = claim.token > 1 ? yield* Effect.retry(store.countChunks(claim.job.id), retrying) : undefined
    const chunks = new EmittedChunks({ store, events, fork }, claim, kind.chunkProblem ?? noProblem, kept)
    attempt.chunks = chunks
    return yield* Effect.tap(runOn(attempt, request), () => chunks.flush)
  })

  // Waits until the attempt may begin, and runs the kind.
  return (attempt: Attempt): Effect.Effect<AttemptResult, AttemptError> =>
    Effect.withFiber((fiber) => {
      attempt.runsIn(fiber, now())
      meter?.began(attempt.claim.job)
      const { isolated } = attempt
      const rate = slots.rateOf(attempt)
      const prerequisites = prerequisitesOf(attempt)
      if (rate === undefined && isolated === undefined && prerequisites === undefined) return runKind(attempt)
      const start = Effect.suspend(() => runKind(attempt))
      const started = rate === undefined ? start : Effect.andThen(rate.take(attempt), start)
      const alone = isolated === undefined ? started : Effect.andThen(isolated.waitUntilQuiet, started)
      return prerequisites === undefined ? alone : Effect.andThen(prerequisites, alone)
    })
})

/** Ends an attempt that takes longer than its kind allows. Kinds without such a limit need no fiber for it. */
const inTime = <A>(attempt: Attempt, run: Effect.Effect<A, AttemptError>): Effect.Effect<A, AttemptError> => {
  const { attemptTimeoutMs } = attempt.kind.limits
  if (attemptTimeoutMs === undefined) return run
  return Effect.raceFirst(
    run,
    Effect.andThen(
      Effect.sleep(attemptTimeoutMs),
      Effect.suspend(() => {
        attempt.cut(Cause.fail(tookTooLong(attemptTimeoutMs)))
        return Effect.never
      }),
    ),
  )
}

const tookTooLong = (attemptTimeoutMs: number) =>
  new AttemptFailed({
    errorCode: "job_timeout",
    retry: true,
    detail: `the attempt took longer than attemptTimeoutMs, ${attemptTimeoutMs} ms`,
  })

const noProblem = () => undefined

const notReadable = Effect.suspend(() =>
  Effect.fail(
    new AttemptFailed({ errorCode: "internal_error", retry: false, detail: "the stored request cannot be decoded" }),
  ),
)
