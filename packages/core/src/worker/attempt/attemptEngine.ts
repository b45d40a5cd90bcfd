import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { FileGone } from "../../domain/Errors.ts"
import { authorize, type Job, type JobId, type Principal, submittedOf } from "../../domain/index.ts"
import { followUpKey } from "../../domain/Child.ts"
import { cancelJob } from "../../engine/cancelJob.ts"
import type { JobEvents } from "../../engine/JobEvents.ts"
import type { Engine } from "../../engine/index.ts"
import type { AttemptEngine, AttemptError, FollowUpOptions } from "../../kinds/AttemptContext.ts"
import { KindBug } from "../../kinds/KindBug.ts"
import type { JobDirectory, JobStore } from "../../ports/index.ts"
import { kindNamed } from "./children.ts"
import { refused } from "./refused.ts"
import { shownCall } from "./UsedNames.ts"

/** The owner of a job. */
const ownerOf = ({ keyId, mode, projectId }: Job): Principal => ({ keyId, mode, projectId, scopes: [] })

/**
 * Submits the job of a step. A kill after that leaves the job without the step's value; the next attempt finds it by its key. The job has
 * the owner and the context of the submitting one.
 */
export const submitFollowUp = Effect.fnUntraced(function* (
  engine: Engine["Service"],
  job: Job,
  step: string,
  kindName: unknown,
  request: unknown,
  { delayMs, metadata, priority, tags }: FollowUpOptions,
  now: () => number,
): Effect.fn.Return<JobId, AttemptError> {
  const call = shownCall("engine.submit", step)
  const kind = kindNamed(engine, call, kindName)
  const declared = Object.keys(metadata ?? {}).find((name) => kind.metadata.includes(name))
  if (declared !== undefined)
    throw new KindBug(`${call}: metadata.${declared}: the kind ${kind.name} keeps the request field of this name`)
  const grant = authorize({ ...ownerOf(job), scopes: [kind.keyScope] }, kind.keyScope)
  if (grant === undefined) throw new Error("authorize() refused a scope that the principal has")
  const { context } = submittedOf(job)
  const [outcome] = yield* engine.createJobs([
    {
      grant,
      kind,
      request,
      idempotencyKey: followUpKey({ jobId: job.id, step }),
      placement: {
        priority: priority ?? job.priority,
        delayMs,
        submitted: {
          ...(tags !== undefined && { tags: [...new Set(tags)] }),
          ...(metadata !== undefined && { metadata }),
          ...(context !== undefined && { context }),
        },
        uncapped: true,
      },
    },
  ])
  if (outcome === undefined) throw new TypeError("createJobs returned no outcome for a job")
  if (Result.isSuccess(outcome)) return outcome.success.job.id
  return yield* refused(outcome.failure, job, now, {
    request,
    name: `the job of ${call}`,
    waiting: `the job of ${call} has to`,
    reused: () =>
      new KindBug(`${call} had another request in an earlier attempt; give a step the same request each time`),
  })
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
    cancel: (jobId) => Effect.andThen(get(jobId), Effect.provideContext(cancelJob(jobId), context)),
  }
}
