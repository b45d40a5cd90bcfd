import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { type JobMode, type JobTrace, type Json, requireOptions } from "../domain/index.ts"
import { requireSignal } from "../domain/knownNames.ts"
import { acceptedOf, type SettleJob } from "../engine/acceptedOf.ts"
import { type AcceptedJob, type JobRequest, Engine, type JobOutcomes } from "../engine/index.ts"
import { traceIn } from "../engine/prepareJob.ts"
import { inSpan } from "../engine/spans.ts"
import type { Kind } from "../kinds/index.ts"
import { makeAskedFor } from "./askedFor.ts"
import type { EmbeddedEngine } from "./EmbeddedEngine.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import { verbOptions } from "./optionNames.ts"
import { shownOutcome, shownSubmission } from "./shownOutcome.ts"

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
  { closed, context, run, runSync }: EngineRuntime,
  defaultMode: JobMode,
  capture: (() => Json | undefined) | undefined,
): Verbs<K, Transaction, SyncTransaction> => {
  const engine = Context.get(context, Engine)
  const askedFor = makeAskedFor(engine, runSync(Effect.clockWith(Effect.succeed)), defaultMode, capture)
  const hasTracer = runSync(Effect.withFiber((fiber) => Effect.succeed(fiber.cache.tracer !== undefined)))

  const { defaultCurrency } = engine.settings
  const resultOf = (accepted: AcceptedJob) => shownSubmission(accepted, defaultCurrency)
  const outcomeOf = (outcome: JobOutcomes[number]) => shownOutcome(outcome, defaultCurrency)
  /** Accepts a job without a fiber. */
  const accepted = async (asked: JobRequest, signal: AbortSignal | undefined): Promise<AcceptedJob> => {
    const exit = await new Promise<Parameters<SettleJob>[0]>((resolve) => {
      engine.pushJob(asked, resolve)
    })
    signal?.throwIfAborted()
    closed.throwIfAborted()
    if (Exit.isFailure(exit)) throw Cause.squash(exit.cause)
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
      if ("transaction" in given) return resultOf(await run(engine.createJobIn(transactionOf(given), asked), signal))
      if (hasTracer) {
        const { grant, idempotencyKey, placement } = asked
        return resultOf(await run(engine.createJob(grant, asked.kind, request, idempotencyKey, placement), signal))
      }
      return resultOf(await accepted(asked, signal))
    },
    submitSync: (kind, request, given) => {
      requireOptions("submitSync()", given, verbOptions.submitSync)
      closed.throwIfAborted()
      const asked = askedFor.one(kind, request, given)
      const accept = (trace?: JobTrace) => engine.createJobInSync(given.transaction, asked, trace)
      return resultOf(hasTracer ? inSyncSpan({ runSync }, "createJobInSync", accept) : accept())
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
      return (await run(outcomes, signal)).map(outcomeOf)
    },
    submitManySync: (kind, submissions, given) => {
      requireOptions("submitManySync()", given, verbOptions.submitManySync)
      closed.throwIfAborted()
      const asked = askedFor.many("submitManySync()", kind, submissions)
      const accept = (trace?: JobTrace) => engine.createJobsInSync(given.transaction, asked, trace)
      return (hasTracer ? inSyncSpan({ runSync }, "createJobsInSync", accept) : accept()).map(outcomeOf)
    },
  }
}
