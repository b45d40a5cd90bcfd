import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { foreignPauseMs } from "../../domain/Child.ts"
import { isFinished, type Job, type JobId, submittedOf } from "../../domain/index.ts"
import { monotonicMs } from "../../domain/monotonicMs.ts"
import { cancelJob } from "../../engine/cancelJob.ts"
import { JobEvents } from "../../engine/JobEvents.ts"
import { type Prerequisite, readPrerequisites } from "../../engine/prerequisites.ts"
import {
  type AttemptError,
  AttemptFailed,
  AttemptParked,
  type AttemptResult,
  type Child,
  LeaseLost,
} from "../../kinds/AttemptContext.ts"
import { type Claim, JobDirectory, JobStore } from "../../ports/index.ts"
import type { Slots } from "../claiming/Slots.ts"
import { AttemptMeter } from "../metrics/jobMetrics.ts"
import { retrying } from "../repeating.ts"
import { type Attempt, storeNow } from "./Attempt.ts"
import { attemptContexts } from "./AttemptContext.ts"
import { tookTooLong } from "./AttemptEnd.ts"
import { childOf } from "./children.ts"
import { EmittedChunks } from "./EmittedChunks.ts"

/** The time for which one check of a parent counts for its other children, in milliseconds. */
const countsForMs = 1_000

/**
 * Returns the check that a child's parent was not canceled. A parent that is canceled while it submits leaves children that its
 * cancellation does not find. They end here, before they cost anything. `undefined` for
 * jobs without a parent, which are not checked.
 */
const makeParentCheck = Effect.gen(function* () {
  const context = yield* Effect.context<JobStore | JobDirectory | JobEvents>()
  const directory = yield* JobDirectory
  /** When each parent was last found not to be canceled, oldest first. */
  const lookedAt = new Map<JobId, number>()

  const check = Effect.fnUntraced(function* (child: JobId, parent: JobId): Effect.fn.Return<void, AttemptError> {
    const now = yield* monotonicMs
    for (const [id, at] of lookedAt) {
      if (now - at < countsForMs) break
      lookedAt.delete(id)
    }
    if (lookedAt.has(parent)) return
    const [found] = yield* directory.readJobs([parent])
    if (found?.errorCode !== "canceled_by_operator") {
      lookedAt.set(parent, now)
      return
    }
    // If it has ended otherwise meanwhile, that is as good.
    yield* cancelJob(child).pipe(
      Effect.catchTag(["JobFinished", "JobNotFound"], () => Effect.void),
      Effect.provideContext(context),
    )
    return yield* new LeaseLost()
  })

  return ({ job }: Claim): Effect.Effect<void, AttemptError> | undefined => {
    const { parent } = submittedOf(job)
    return parent === undefined ? undefined : check(job.id, parent.jobId)
  }
})

/** Prerequisites that a message names. */
const maxNamed = 5

const failure = (job: Job, failed: ReadonlyArray<Prerequisite>, total: number): AttemptFailed => {
  const named = failed
    .slice(0, maxNamed)
    .map(({ id, latest }) => `${latest?.id ?? id} (${latest?.errorCode ?? "not found in this project and mode"})`)
  const more = failed.length > maxNamed ? ", …" : ""
  const message = `${failed.length} of ${total} prerequisites failed: ${named.join(", ")}${more}`
  return new AttemptFailed({
    errorCode: "prerequisite_failed",
    retry: false,
    detail: `${job.id}: ${message}`,
    publicMessage: message,
  })
}

/**
 * Returns the prerequisites of a job once all have finished, in their order. Until then it fails with `AttemptParked`, and the attempt
 * ends without holding a slot. The retry of a prerequisite takes its place. Fails the job if one failed, unless the job runs even then,
 * and if one does not exist: a job that names its prerequisites in a transaction is not checked before.
 */
const awaitPrerequisites = Effect.fnUntraced(function* (
  services: { readonly store: JobStore["Service"]; readonly directory: JobDirectory["Service"] },
  job: Job,
  after: ReadonlyArray<JobId>,
  now: () => number,
): Effect.fn.Return<ReadonlyArray<Child>, AttemptError> {
  const prerequisites = yield* readPrerequisites(services, job, after)
  const isOpen = (of: Job | undefined) => of !== undefined && !isFinished(of)
  if (prerequisites.some(({ latest }) => isOpen(latest))) {
    // The end of a job that is named wakes this one, and that of its retry does not.
    const until = prerequisites.some(({ named }) => isOpen(named)) ? undefined : now() + foreignPauseMs
    return yield* new AttemptParked({ park: { reason: "after", subject: `${after.length}`, until } })
  }
  const runsAnyway = submittedOf(job).afterFailure === "run"
  const failed = prerequisites.filter(
    ({ latest }) => latest === undefined || (latest.status === "failed" && !runsAnyway),
  )
  if (failed.length > 0) return yield* failure(job, failed, after.length)
  return prerequisites.flatMap(({ latest }) => (latest === undefined ? [] : [childOf(latest)]))
})

/** Returns what does the work of an attempt, for the attempts of a worker. It can be interrupted. */
export const attemptWork = Effect.fnUntraced(function* (slots: Slots) {
  const { batches, isolation, watch } = slots
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
      onSuccess: (jobs) =>
        Effect.sync(() => {
          attempt.after = jobs
          // A wait of its work keeps a step.
          if (job.attempts === 1 && Object.keys(job.checkpoints).length === 0) meter?.beganFirst(job)
        }),
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

  const runOn = (attempt: Attempt, request: unknown) => {
    const { batch } = attempt.kind
    const context = contextOf(attempt, request)
    return batch === undefined ? inTime(attempt, attempt.kind.run(context)) : batches.run(batch, attempt, context)
  }

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
      const { claim, isolated } = attempt
      const rate = slots.rateOf(attempt)
      const prerequisites = prerequisitesOf(attempt)
      meter?.began(claim.job)
      if (prerequisites === undefined && claim.token === 1) meter?.beganFirst(claim.job)
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

const noProblem = () => undefined

const notReadable = Effect.suspend(() =>
  Effect.fail(
    new AttemptFailed({ errorCode: "internal_error", retry: false, detail: "the stored request cannot be decoded" }),
  ),
)
