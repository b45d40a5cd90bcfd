import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import {
  authorize,
  type Job,
  type JobMode,
  JobNotFound,
  KindUnknown,
  requireNumber,
  requireOptions,
} from "../domain/index.ts"
import { acceptedOf } from "../engine/acceptedOf.ts"
import { type Accepted, type Asked, Engine, EngineConfig, type JobOutcomes } from "../engine/index.ts"
import { readJob } from "../engine/readJob.ts"
import { waitForJob } from "../engine/waitForJob.ts"
import type { JobKind, Kind } from "../kinds/index.ts"
import { type CreateOutcome, IdGenerator } from "../ports/index.ts"
import { callOptions } from "./callOptions.ts"
import { requireMode } from "./checkOptions.ts"
import { callerOf, projectIdOf } from "./callers.ts"
import type {
  AbortOption,
  EmbeddedEngine,
  ProjectOption,
  Submission,
  SubmitOptions,
  SubmitOutcome,
  WaitOptions,
} from "./EmbeddedEngine.ts"
import type { JobReference } from "./JobResult.ts"
import { submissionFields, verbOptions } from "./optionNames.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import { toJobResult } from "./toJobResult.ts"

const defaultWaitMs = 300_000

type Verbs<K extends Kind, Transaction, SyncTransaction> = Pick<
  EmbeddedEngine<K, Transaction, SyncTransaction>,
  "submit" | "submitSync" | "submitMany" | "submitManySync" | "get" | "wait" | "run" | "erase"
>

export const idOf = (job: JobReference<string>): string => (typeof job === "string" ? job : job.id)

/** A job as the program sees it. */
export const shown = (job: Job) =>
  Effect.map(EngineConfig, ({ defaultCurrency }) => toJobResult<never>(job, defaultCurrency))

/** Whether a job is of this project; any job is, where none is given. */
const isOf = (project: string | undefined): ((job: Job) => boolean) => {
  const projectId = project === undefined ? undefined : projectIdOf(project)
  return (job) => projectId === undefined || job.projectId === projectId
}

const findJob = (job: JobReference<string>, project: string | undefined) =>
  Effect.flatMap(readJob(idOf(job)), (found) =>
    isOf(project)(found) ? Effect.succeed(found) : Effect.fail(new JobNotFound()),
  )

/** The options of `run`, for each of the two verbs it consists of. Throws `TypeError` before either is begun. */
export const partsOfRun = (options: SubmitOptions & WaitOptions) => {
  requireOptions("run()", options, verbOptions.run)
  const { timeoutMs, ...submitting } = options
  if (timeoutMs !== undefined) requireNumber("timeoutMs", timeoutMs, { least: 0 })
  const { project, signal } = submitting
  const waiting: WaitOptions = {
    ...(project !== undefined && { project }),
    ...(signal !== undefined && { signal }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  }
  return { submitting, waiting }
}

type Outcome = SubmitOutcome<never>

/** Named but undefined is a mistake, and must not become a job that does not depend on the transaction. */
const transactionOf = ({ transaction }: { readonly transaction?: unknown }): unknown => {
  if (transaction === undefined) throw new TypeError("the transaction is undefined")
  return transaction
}

export const jobVerbs = <K extends Kind, Transaction, SyncTransaction>(
  { closed, context, run, runSync }: EngineRuntime,
  defaultMode: JobMode,
): Verbs<K, Transaction, SyncTransaction> => {
  const engine = Context.get(context, Engine)
  const ids = Context.get(context, IdGenerator)
  const hasTracer = runSync(Effect.withFiber((fiber) => Effect.succeed(fiber.cache.tracer !== undefined)))
  const { defaultCurrency } = engine.settings

  const kindNamed = (name: string): JobKind => {
    const kind = engine.kinds.find((known) => known.name === name)
    if (kind === undefined) throw new KindUnknown({ kind: name, known: engine.kinds.map((known) => known.name) })
    return kind
  }
  const askedFor = (kind: JobKind, request: unknown, options: SubmitOptions): Asked => {
    const { delayMs, idempotencyKey, mode = defaultMode, priority, project } = options
    requireMode(mode)
    if (idempotencyKey !== undefined && !/^[\x21-\x7e]{1,255}$/.test(idempotencyKey))
      throw new TypeError("idempotencyKey must be 1 to 255 visible ASCII characters without spaces")
    const grant = authorize(callerOf(mode, project, [kind.keyScope]), kind.keyScope)
    if (grant === undefined) throw new TypeError(`no grant for ${kind.keyScope}`)
    return {
      grant,
      kind,
      request,
      idempotencyKey: idempotencyKey ?? ids.next("req"),
      placement: { priority, delayMs },
    }
  }
  const allAskedFor = (place: string, name: string, submissions: ReadonlyArray<Submission<unknown>>) => {
    const kind = kindNamed(name)
    if (!Array.isArray(submissions)) throw new TypeError(`${place} needs an array of { request, … }`)
    return submissions.map((submission: Submission<unknown>, index) => {
      requireOptions(`${place}, item ${index}`, submission, submissionFields)
      return askedFor(kind, submission.request, submission)
    })
  }
  // Which kind a job has is what its caller submitted.
  const resultOf = ({ job }: Accepted) => toJobResult<never>(job, defaultCurrency)
  const outcomeOf = (outcome: JobOutcomes[number]): Outcome =>
    Result.isSuccess(outcome)
      ? { job: resultOf(outcome.success), replayed: outcome.success.replayed }
      : { error: outcome.failure }
  // Without a fiber. The outcome is looked at where it is awaited, so that an error has the stack of the caller.
  const stored = (asked: Asked) =>
    new Promise<CreateOutcome | undefined>((resolve, reject) => {
      engine.pushJob(asked, (exit) =>
        Exit.isSuccess(exit) ? resolve(exit.value) : reject(Cause.squash(exit.cause) as Error),
      )
    })

  const verbs: Verbs<K, Transaction, SyncTransaction> = {
    submit: async (name, request, given = {}) => {
      requireOptions("submit()", given, verbOptions.submit)
      const { signal } = given
      signal?.throwIfAborted()
      closed.throwIfAborted()
      const asked = askedFor(kindNamed(name), request, given)
      if ("transaction" in given) return resultOf(await run(engine.createJobIn(transactionOf(given), asked), signal))
      if (hasTracer) {
        const { grant, idempotencyKey, kind, placement } = asked
        return resultOf(await run(engine.createJob(grant, kind, request, idempotencyKey, placement), signal))
      }
      const outcome = await stored(asked)
      signal?.throwIfAborted()
      closed.throwIfAborted()
      return resultOf(Result.getOrThrow(acceptedOf(outcome)))
    },
    submitSync: (name, request, given) => {
      requireOptions("submitSync()", given, verbOptions.submitSync)
      closed.throwIfAborted()
      return resultOf(engine.createJobInSync(given.transaction, askedFor(kindNamed(name), request, given)))
    },
    submitMany: async (name, submissions, given = {}) => {
      requireOptions("submitMany()", given, verbOptions.submitMany)
      const { signal } = given
      const asked = allAskedFor("submitMany()", name, submissions)
      const outcomes = await run(
        "transaction" in given ? engine.createJobsIn(transactionOf(given), asked) : engine.createJobs(asked),
        signal,
      )
      return outcomes.map(outcomeOf)
    },
    submitManySync: (name, submissions, given) => {
      requireOptions("submitManySync()", given, verbOptions.submitManySync)
      closed.throwIfAborted()
      const asked = allAskedFor("submitManySync()", name, submissions)
      return engine.createJobsInSync(given.transaction, asked).map(outcomeOf)
    },
    get: async (job, options?: ProjectOption & AbortOption, ...rest: ReadonlyArray<unknown>) => {
      const { project, signal } = callOptions("get()", verbOptions.get, options, rest)
      return run(Effect.flatMap(findJob(job, project), shown), signal)
    },
    wait: async (job, options?: WaitOptions, ...rest: ReadonlyArray<unknown>) => {
      const { project, signal, timeoutMs = defaultWaitMs } = callOptions("wait()", verbOptions.wait, options, rest)
      requireNumber("timeoutMs", timeoutMs, { least: 0 })
      return run(
        Effect.suspend(() => Effect.flatMap(waitForJob(idOf(job), isOf(project), timeoutMs), shown)),
        signal,
      )
    },
    run: async (kind, request, options = {}) => {
      const { submitting, waiting } = partsOfRun(options)
      return verbs.wait(await verbs.submit(kind, request, submitting), waiting)
    },
    erase: async (job, options?: ProjectOption & AbortOption, ...rest: ReadonlyArray<unknown>) => {
      const { project, signal } = callOptions("erase()", verbOptions.erase, options, rest)
      return run(
        Effect.gen(function* () {
          const engine = yield* Engine
          const { id, keyId, mode, projectId } = yield* findJob(job, project)
          yield* engine.eraseJobData({ keyId, mode, projectId, scopes: [] }, id)
        }),
        signal,
      )
    },
  }
  return verbs
}
