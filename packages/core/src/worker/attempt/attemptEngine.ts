import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { FileGone, type JobFinished } from "../../domain/Errors.ts"
import { authorize, isId, type Job, type JobId, type Json, type Principal, submittedOf } from "../../domain/index.ts"
import { followUpKey, promisedStep } from "../../domain/Child.ts"
import { promisedId } from "../../domain/Ids.ts"
import { cancelJob } from "../../engine/cancelJob.ts"
import type { JobEvents } from "../../engine/JobEvents.ts"
import type { CreateJobError, Engine, JobRequest } from "../../engine/index.ts"
import { type PrepareJob, readDraft, traceIn } from "../../engine/prepareJob.ts"
import type { AttemptEngine, AttemptError, FollowUpOptions } from "../../kinds/AttemptContext.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { IdGenerator, JobDirectory, JobStore } from "../../ports/index.ts"
import { type Attempt, shownCall } from "./Attempt.ts"
import { kindNamed } from "./children.ts"
import { refused } from "./refused.ts"

/** The owner of a job. */
const ownerOf = ({ keyId, mode, projectId }: Job): Principal => ({ keyId, mode, projectId, scopes: [] })

/** A job that a step submits. */
interface FollowUp {
  /** The call, in messages. */
  readonly verb: "engine.submit" | "engine.submitWith"
  readonly step: string
  readonly kindName: unknown
  readonly request: unknown
  readonly options: FollowUpOptions
}

/** Returns the request for the job of a step. The job has the owner and the context of the submitting one. */
const followUpRequest = (
  engine: Engine["Service"],
  job: Job,
  { kindName, options: { delayMs, metadata, priority, tags }, request, step, verb }: FollowUp,
  id?: JobId,
): JobRequest => {
  const call = shownCall(verb, step)
  const kind = kindNamed(engine, call, kindName)
  const declared = Object.keys(metadata ?? {}).find((name) => kind.metadata.includes(name))
  if (declared !== undefined)
    throw new KindBug(`${call}: metadata.${declared}: the kind ${kind.name} keeps the request field of this name`)
  const grant = authorize({ ...ownerOf(job), scopes: [kind.keyScope] }, kind.keyScope)
  if (grant === undefined) throw new Error("authorize() refused a scope that the principal has")
  const { context } = submittedOf(job)
  return {
    grant,
    kind,
    request,
    idempotencyKey: followUpKey({ jobId: job.id, step }),
    placement: {
      id,
      priority: priority ?? job.priority,
      delayMs,
      submitted: {
        ...(tags !== undefined && { tags: [...new Set(tags)] }),
        ...(metadata !== undefined && { metadata }),
        ...(context !== undefined && { context }),
      },
      uncapped: true,
    },
  }
}

const refusedCall = (
  error: CreateJobError,
  job: Job,
  { request, step, verb }: FollowUp,
  now: () => number,
): Effect.Effect<never, AttemptError> => {
  const call = shownCall(verb, step)
  return refused(error, job, now, {
    request,
    name: `the job of ${call}`,
    waiting: `the job of ${call} has to`,
    reused: () =>
      new KindBug(`${call} had another request in an earlier attempt; give a step the same request each time`),
  })
}

/** Submits the job of a step. A kill after that leaves the job without the step's value; the next attempt finds it by its key. */
const submitFollowUp = Effect.fnUntraced(function* (
  engine: Engine["Service"],
  job: Job,
  followUp: FollowUp,
  now: () => number,
): Effect.fn.Return<JobId, AttemptError> {
  const [outcome] = yield* engine.createJobs([followUpRequest(engine, job, followUp)])
  if (outcome === undefined) throw new TypeError("createJobs returned no outcome for a job")
  if (Result.isSuccess(outcome)) return outcome.success.job.id
  return yield* refusedCall(outcome.failure, job, followUp, now)
})

/** Maximum number of jobs that one job submits with its result: they are created in the transaction that others share. */
const maxFollowUps = 100

/** What an attempt needs to submit jobs. */
interface Submitting {
  readonly engine: Engine["Service"]
  readonly ids: IdGenerator["Service"]
  readonly prepare: PrepareJob
}

/** The parts of an attempt that its submissions run in. */
interface Parts {
  readonly named: (
    call: FollowUp["verb"],
    step: string,
  ) => <A>(effect: Effect.Effect<A, AttemptError>) => Effect.Effect<A, AttemptError>
  readonly kept: <A>(step: string, run: () => Effect.Effect<A, AttemptError>) => Effect.Effect<A, AttemptError>
  readonly known: (step: string) => Effect.Effect<Json | undefined, AttemptError>
  readonly now: () => number
}

/**
 * Adds a job to those that are created with the result of the attempt. Everything that depends on its request alone is checked here.
 * Its switches and its provider are not: it waits in the queue for them, like a job that was accepted before a switch was turned off.
 */
const submitWithResult = (
  { engine, prepare }: Submitting,
  attempt: Attempt,
  followUp: FollowUp,
  id: JobId,
  now: () => number,
): Effect.Effect<JobId, AttemptError> =>
  Effect.withFiber((fiber) => {
    const { job } = attempt.claim
    const call = shownCall(followUp.verb, followUp.step)
    const earlier = attempt.followUps ?? []
    if (earlier.length >= maxFollowUps)
      throw new KindBug(`${call}: a job submits at most ${maxFollowUps} jobs this way`)
    const draft = readDraft(followUpRequest(engine, job, followUp, id))
    if (Result.isFailure(draft)) return refusedCall(draft.failure, job, followUp, now)
    const { gate, ...prepared } = prepare(draft.success, traceIn(fiber))
    if (prepared.uploadId !== null)
      throw new KindBug(`${call}: a job with an upload cannot be submitted this way; use engine.submit`)
    attempt.followUps = [...earlier, { ...prepared, gate: gate && { ...gate, switches: [], liveWorker: null } }]
    return Effect.succeed(id)
  })

/** Returns the verbs of an attempt's engine that submit jobs: each is a step. */
export const submittingVerbs = (
  services: Submitting,
  attempt: Attempt,
  { kept, known, named, now }: Parts,
): Pick<AttemptEngine, "submit" | "submitWith"> => ({
  submit: (step, kindName, request, options = {}) => {
    const followUp = { verb: "engine.submit", step, kindName, request, options } as const
    return named(
      followUp.verb,
      step,
    )(kept(step, () => submitFollowUp(services.engine, attempt.claim.job, followUp, now)))
  },
  submitWith: (step, kindName, request, options = {}) => {
    const followUp = { verb: "engine.submitWith", step, kindName, request, options } as const
    const promise = Effect.suspend(() => {
      // Kept, so that a later attempt tells the same id.
      const id = kept(promisedStep(step), () => Effect.sync(() => promisedId(services.ids.next("job"))))
      return Effect.flatMap(id, (promised) => submitWithResult(services, attempt, followUp, promised, now))
    })
    // If earlier code called `submit` here, also in the job that this one retries, the job exists.
    const submitted = Effect.flatMap(known(step), (earlier) => {
      if (earlier === undefined) return promise
      if (!isId("job", earlier)) throw new KindBug(`step "${step}" was another call in an earlier attempt`)
      return kept(step, () => Effect.succeed(earlier))
    })
    return named(followUp.verb, step)(submitted)
  },
})

/** The services that reading and canceling jobs need. */
interface Services {
  readonly engine: Engine["Service"]
  readonly context: Context.Context<JobStore | JobDirectory | JobEvents>
}

/** Returns the verbs of an attempt's engine that keep nothing. They see the jobs of the owner only. */
export const ownersVerbs = (
  { context, engine }: Services,
  job: Job,
): Pick<AttemptEngine, "get" | "readFile" | "signal" | "cancel"> => {
  const owner = ownerOf(job)
  const get = (jobId: string) => engine.getJob(owner, jobId)
  // A repeated attempt finds the jobs that an earlier one has canceled.
  const unlessCanceled = (jobId: string) => (error: JobFinished) =>
    Effect.flatMap(get(jobId), ({ errorCode }) =>
      errorCode === "canceled_by_operator" ? Effect.void : Effect.fail(error),
    )
  return {
    get,
    readFile: (fileId) =>
      Stream.unwrap(
        Effect.gen(function* () {
          const file = yield* engine.findFile(fileId)
          yield* Effect.catchTag(get(file.jobId), "JobNotFound", () => Effect.fail(new FileGone()))
          return (yield* engine.openFile(file)).content
        }),
      ),
    signal: (jobId, name, value) => engine.signalJob({ jobId, name, value, owner }),
    cancel: (jobId) =>
      Effect.andThen(
        get(jobId),
        Effect.catchTag(Effect.provideContext(cancelJob(jobId), context), "JobFinished", unlessCanceled(jobId)),
      ),
  }
}
