import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { KindUnknown } from "../domain/Errors.ts"
import { authorize, type JobMode, type Json, requireNumber, requireOptions } from "../domain/index.ts"
import type { JobTrace } from "../domain/JobMetadata.ts"
import { readPriority } from "../domain/Priority.ts"
import { isDate, isPlainObject, requireSignal } from "../domain/givenValues.ts"
import { fieldOf } from "../providers/checks.ts"
import { acceptedOf, maxWaiting, type SettleJob } from "../engine/createJob.ts"
import {
  type AcceptedJob,
  Engine,
  type EngineSettings,
  type FinishHandler,
  type JobOutcomes,
  type JobRequest,
} from "../engine/index.ts"
import { maxDelayMs, traceIn } from "../engine/prepareJob.ts"
import { inSpan, outsideOfCallers } from "../engine/spans.ts"
import type { JobKind, Kind } from "../kinds/index.ts"
import { callerOf, requireIdempotencyKey, requireMode, submissionFields, verbOptions } from "./checkOptions.ts"
import { submittedFor, uniqueFor } from "./checkSubmitted.ts"
import type { EmbeddedEngine, Submission, SubmitOptions, SubmitOutcome } from "./EmbeddedEngine.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import type { FinishedJob, OnFinished, SubmittedJob } from "./JobResult.ts"
import { toJobResult } from "./toJobResult.ts"

/** Returns the handlers of the kinds: a kind's own, or else the engine's. */
export const finishHandlersOf = (
  kinds: ReadonlyArray<JobKind>,
  engines: OnFinished<never> | undefined,
  settings: EngineSettings,
): ReadonlyMap<string, FinishHandler> =>
  new Map(
    kinds.flatMap((kind): ReadonlyArray<readonly [string, FinishHandler]> => {
      const given = kind.onFinished ?? engines
      if (given === undefined) return []
      // Which kind's job it is was decided by the name under which the function is found.
      const onFinished = given as OnFinished
      const handler: FinishHandler = async (job, attempt, signal) => {
        const request = kind.requestOnFailure && job.status === "failed" ? job.request : null
        const result = toJobResult(job, { kinds, settings }) as FinishedJob
        return outsideOfCallers(() =>
          onFinished({ job: result, attempt, signal, ...(request !== null && { request }) }),
        )
      }
      return [[kind.name, handler]]
    }),
  )

type Verbs<K extends Kind, Transaction, SyncTransaction> = Pick<
  EmbeddedEngine<K, Transaction, SyncTransaction>,
  "submit" | "submitSync" | "submitMany" | "submitManySync"
>

/** `transaction: undefined` is a mistake, and must not create a job that does not depend on the transaction. */
const transactionOf = ({ transaction }: { readonly transaction?: unknown }): unknown => {
  if (transaction === undefined)
    throw new TypeError("transaction is undefined; leave the option out to submit without one")
  return transaction
}

/** Runs a synchronous operation that accepts jobs, with the trace to store: in a span, if there is a tracer. */
const inSyncSpan = <A>(
  { runSync }: Pick<EngineRuntime, "runSync">,
  operation: string,
  accept: (trace: JobTrace | undefined) => A,
): A => {
  const accepting = Effect.withFiber((fiber) => Effect.sync(() => accept(traceIn(fiber))))
  return runSync(inSpan(`Engine.${operation}`, accepting, { kind: "producer" }))
}

/** The verbs that accept jobs. */
export const submitVerbs = <K extends Kind, Transaction, SyncTransaction>(
  { accept, accepting, closed, context, run, runSync }: EngineRuntime,
  defaultMode: JobMode,
  capture: (() => Json | undefined) | undefined,
): Verbs<K, Transaction, SyncTransaction> => {
  const engine = Context.get(context, Engine)
  const askedFor = makeAskedFor(engine, runSync(Effect.clockWith(Effect.succeed)), defaultMode, capture)
  const hasTracer = runSync(Effect.withFiber((fiber) => Effect.succeed(fiber.cache.tracer !== undefined)))

  const resultOf = (accepted: AcceptedJob) => shownSubmission(accepted, engine)
  const outcomeOf = (outcome: JobOutcomes[number]) => shownOutcome(outcome, engine)
  /** Accepts a job without a fiber. */
  const accepted = async (asked: JobRequest, signal: AbortSignal | undefined): Promise<AcceptedJob> => {
    const pushed = new Promise<Parameters<SettleJob>[0]>((resolve) => {
      engine.pushJob(asked, resolve)
    })
    const exit = await accepting(pushed)
    signal?.throwIfAborted()
    if (Exit.isFailure(exit)) {
      if (Cause.hasInterruptsOnly(exit.cause)) closed.throwIfAborted()
      throw Cause.squash(exit.cause)
    }
    // Made after the `await`, so that the stack of a refusal leads to the caller.
    return Result.getOrThrow(acceptedOf(exit.value))
  }
  return {
    submit: async (kind, request, given = {}) => {
      requireOptions("submit()", given, verbOptions.submit)
      const { signal } = given
      requireSignal("signal", signal)
      signal?.throwIfAborted()
      closed.throwIfAborted()
      const asked = askedFor.one(kind, request, given)
      if ("transaction" in given) return resultOf(await accept(engine.createJobIn(transactionOf(given), asked), signal))
      if (hasTracer || asked.placement?.submitted?.after !== undefined) {
        const { grant, idempotencyKey, placement } = asked
        return resultOf(await accept(engine.createJob(grant, asked.kind, request, idempotencyKey, placement), signal))
      }
      return resultOf(await accepted(asked, signal))
    },
    submitSync: (kind, request, given) => {
      requireOptions("submitSync()", given, verbOptions.submitSync)
      closed.throwIfAborted()
      const asked = askedFor.one(kind, request, given)
      const create = (trace?: JobTrace) => engine.createJobInSync(given.transaction, asked, trace)
      return resultOf(hasTracer ? inSyncSpan({ runSync }, "createJobInSync", create) : create())
    },
    submitMany: async (kind, submissions, given = {}) => {
      requireOptions("submitMany()", given, verbOptions.submitMany)
      const { signal } = given
      requireSignal("signal", signal)
      signal?.throwIfAborted()
      closed.throwIfAborted()
      const asked = askedFor.many("submitMany()", kind, submissions)
      const outcomes =
        "transaction" in given ? engine.createJobsIn(transactionOf(given), asked) : engine.createJobs(asked)
      // A stop cuts off a long list, for which it would wait. The jobs of a shorter one are on their way together.
      const isSent = "transaction" in given || asked.length <= maxWaiting
      return (await (isSent ? accept : run)(outcomes, signal)).map(outcomeOf)
    },
    submitManySync: (kind, submissions, given) => {
      requireOptions("submitManySync()", given, verbOptions.submitManySync)
      closed.throwIfAborted()
      const asked = askedFor.many("submitManySync()", kind, submissions)
      const create = (trace?: JobTrace) => engine.createJobsInSync(given.transaction, asked, trace)
      return (hasTracer ? inSyncSpan({ runSync }, "createJobsInSync", create) : create()).map(outcomeOf)
    },
  }
}

/** Code without types may pass the kind itself. */
const shownName = (kind: unknown): string => {
  const name = fieldOf(kind, "name")
  return typeof name === "string" ? `: "${name.slice(0, 100)}"` : ", a text"
}

const kindNamed = (kinds: ReadonlyArray<JobKind>, name: string): JobKind => {
  if (typeof name !== "string") throw new TypeError(`the kind of a job must be given by its name${shownName(name)}`)
  const kind = kinds.find((known) => known.name === name)
  if (kind === undefined) throw new KindUnknown({ kind: name, known: kinds.map((known) => known.name) })
  return kind
}

/** Turns the arguments of `submit` and `submitMany` into what the engine takes. Throws `KindUnknown`, and `TypeError` for options. */
const makeAskedFor = (
  { kinds }: Engine["Service"],
  clock: Clock.Clock,
  defaultMode: JobMode,
  capture: (() => Json | undefined) | undefined,
) => {
  const delayOf = ({ delayMs, runAt }: SubmitOptions): number | undefined => {
    if (delayMs !== undefined) requireNumber("delayMs", delayMs, { least: 0, most: maxDelayMs })
    if (runAt === undefined) return delayMs
    if (delayMs !== undefined) throw new TypeError("give either delayMs or runAt, not both")
    if (!isDate(runAt) || Number.isNaN(runAt.getTime())) throw new TypeError("runAt must be a valid Date")
    const untilMs = runAt.getTime() - clock.currentTimeMillisUnsafe()
    if (untilMs > maxDelayMs) throw new TypeError("runAt must be at most 366 days from now")
    return Math.max(0, untilMs)
  }
  const askedOf = (kind: JobKind, request: unknown, options: SubmitOptions): JobRequest => {
    const { idempotencyKey, mode = defaultMode, priority, project } = options
    requireMode(mode)
    if (idempotencyKey !== undefined) requireIdempotencyKey(idempotencyKey)
    if (priority !== undefined) readPriority(priority)
    const grant = authorize(callerOf(mode, project, [kind.keyScope]), kind.keyScope)
    if (grant === undefined) throw new TypeError(`no grant for ${kind.keyScope}`)
    return {
      grant,
      kind,
      request,
      idempotencyKey,
      placement: {
        priority,
        delayMs: delayOf(options),
        submitted: submittedFor(kind, options, capture),
        unique: uniqueFor(options.unique, kind, request),
      },
    }
  }
  return {
    one: (name: string, request: unknown, options: SubmitOptions): JobRequest =>
      askedOf(kindNamed(kinds, name), request, options),
    many: (place: string, name: string, submissions: ReadonlyArray<Submission<unknown>>): ReadonlyArray<JobRequest> => {
      const kind = kindNamed(kinds, name)
      if (!Array.isArray(submissions)) throw new TypeError(`${place} expects an array of { request, … }`)
      return submissions.map((submission: Submission<unknown>, index) => {
        if (isPlainObject(submission) && !("request" in submission))
          throw new TypeError(`${place}, job ${index}, has no request: pass { request: { … } } for each job`)
        requireOptions(`${place}, job ${index}`, submission, submissionFields)
        return askedOf(kind, submission.request, submission)
      })
    },
  }
}

// Which kind a job has is what its caller submitted.

/** Converts an accepted job for the program. */
export const shownSubmission = ({ deduplicated, job }: AcceptedJob, engine: Engine["Service"]): SubmittedJob<never> => {
  const result: object = toJobResult(job, engine)
  return (deduplicated === true ? { ...result, deduplicated } : result) as never
}

/** Converts the outcome of one job of a list. */
const shownOutcome = (outcome: JobOutcomes[number], engine: Engine["Service"]): SubmitOutcome<never> => {
  if (Result.isFailure(outcome)) return { error: outcome.failure }
  const { deduplicated, job, replayed } = outcome.success
  return {
    job: toJobResult<never>(job, engine),
    replayed,
    ...(deduplicated === true && { deduplicated: true as const }),
  }
}
