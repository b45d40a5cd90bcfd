import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import { afterFailure } from "../domain/Attempt.ts"
import type { Job, StoreUnavailable } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { GroupCommit, type GroupedVerb } from "../engine/GroupCommit.ts"
import { JobEvents, refOf } from "../engine/JobEvents.ts"
import type { JobEvent, JobRef } from "../engine/JobEvent.ts"
import { type FencedOutcome, JobStore } from "../ports/index.ts"
import type { Attempt } from "./Attempt.ts"
import { type AttemptEnd, describe, postponedDelayMs, unavailableDelayMs } from "./AttemptEnd.ts"
import type { HeldLease } from "./HeldLease.ts"
import type { LeaseWatch } from "./LeaseWatch.ts"
import { retrying } from "./retrying.ts"

/**
 * What the store has of an attempt's end: `committed`, its result; `written`, another end; `blobs_away`, an end because the
 * blob store was unavailable; `lapsed`, nothing, because the lease was lost or the store was unavailable.
 */
export type Written = "committed" | "written" | "blobs_away" | "lapsed"

type EndVerb = "completeJobs" | "failJobs" | "deferJobs" | "releaseJobs"
type ItemOf<Verb extends EndVerb> = Parameters<JobStore["Service"][Verb]>[0][number]

type Outcomes = ReadonlyArray<FencedOutcome>
type Write = Effect.Effect<Outcomes, StoreUnavailable>

/** Returns the function that writes the end of an attempt and emits its event, for the attempts of a worker. */
export const endWriter = Effect.fnUntraced(function* (watch: LeaseWatch) {
  const store = yield* JobStore
  const grouped = Option.getOrUndefined(Context.getOption(yield* Effect.context<JobStore>(), GroupCommit))
  const events = yield* JobEvents
  const { attempts, circuit } = yield* EngineConfig

  const emit = (job: Job, event: WithoutRef<AttemptEvent>) => events.emit({ ...refOf(job), ...event })

  /**
   * Writes one end, unless the lease is lost. The first try joins the next shared call of the store, without a fiber. If the
   * store is unavailable, it is retried while the lease holds.
   */
  const write = <Verb extends EndVerb>(
    { lease }: Attempt,
    verb: Verb,
    item: ItemOf<Verb>,
  ): Effect.Effect<"written" | "lapsed"> =>
    Effect.withFiber((fiber) => {
      if (!lease.holdsAt(watch.now())) return Effect.succeed("lapsed")
      const call = store[verb] as (items: ReadonlyArray<ItemOf<Verb>>) => Write
      // A traced call has a span under its attempt, which a call without a fiber cannot have.
      if (grouped === undefined || fiber.cache.tracer !== undefined) return insist(lease, call([item]))
      return Effect.catch(pushed(lease, grouped[verb] as GroupedVerb<ItemOf<Verb>, FencedOutcome>, item), (error) =>
        insist(lease, startingWith(Effect.fail(error), call([item]))),
      )
    })

  const complete = (attempt: Attempt, end: Extract<AttemptEnd, { readonly _tag: "Completed" }>) =>
    Effect.matchCauseEffect(write(attempt, "completeJobs", end.completion), {
      onSuccess: (written) => {
        if (written === "lapsed") return lapsed
        emit(attempt.claim.job, { type: "done" })
        return committed
      },
      // The store rejects this result, and another attempt would bring one of the same kind.
      onFailure: (cause) =>
        Effect.andThen(
          Effect.logError("the store rejected a result", describe(cause)),
          fail(attempt, { errorCode: "internal_error", retry: false }),
        ),
    })

  const defer = (attempt: Attempt, delayMs: number, countsAsFailure: boolean) => {
    const { jobId, token } = attempt.lease
    return write(attempt, "deferJobs", { jobId, token, delayMs, countsAsFailure })
  }

  const fail = Effect.fnUntraced(function* (
    attempt: Attempt,
    failure: Extract<AttemptEnd, { readonly _tag: "Failed" }>["failure"],
  ): Effect.fn.Return<Written> {
    const { job, token } = attempt.claim
    const { maxFailures = attempts.maxFailures } = attempt.kind.limits
    const after = afterFailure(failure, job.failures, { ...attempts, maxFailures }, yield* Random.next)
    if (after.next === "defer") {
      const { errorCode } = failure
      const { delayMs: retryInMs } = after
      const deferred = yield* defer(attempt, retryInMs, true)
      if (deferred === "written")
        emit(job, { type: "attempt_failed", attempt: job.attempts, errorCode, retryInMs })
      return deferred
    }
    const failed = yield* write(attempt, "failJobs", { jobId: job.id, token, errorCode: after.errorCode })
    if (failed === "written") emit(job, { type: "failed", errorCode: after.errorCode })
    return failed
  })

  const writeEnd = (attempt: Attempt, end: AttemptEnd): Effect.Effect<Written> => {
    const { job, token } = attempt.claim
    switch (end._tag) {
      case "Completed":
        return complete(attempt, end)
      case "LeaseLost":
        return Effect.as(Effect.logWarning("lease lost"), "lapsed")
      case "Released":
        return write(attempt, "releaseJobs", { jobId: job.id, token })
      case "Unavailable":
        return Effect.map(
          defer(attempt, unavailableDelayMs(end.what, job.attempts, attempts, circuit), false),
          (deferred) => (deferred === "written" && end.what === "BlobUnavailable" ? "blobs_away" : deferred),
        )
      case "Postponed":
        return defer(attempt, postponedDelayMs(end.delayMs, attempts), false)
      case "Failed":
        return fail(attempt, end.failure)
    }
  }

  return (attempt: Attempt, end: AttemptEnd): Effect.Effect<Written> =>
    Effect.catchCause(writeEnd(attempt, end), (cause) =>
      Effect.as(Effect.logError("failed to write the end of an attempt", describe(cause)), "lapsed" as const),
    )
})

const committed = Effect.succeed("committed" as const)
const lapsed = Effect.succeed("lapsed" as const)
const written = Effect.succeed("written" as const)

const outcomeOf = ([outcome]: Outcomes) => (outcome === "Written" ? written : lapsed)

/** Adds the item to the next shared call, and waits for its outcome or for the loss of the lease. */
const pushed = <Item>(lease: HeldLease, verb: GroupedVerb<Item, FencedOutcome>, item: Item) =>
  Effect.callback<"written" | "lapsed", StoreUnavailable>((resume) => {
    lease.whenLost(() => resume(lapsed))
    verb.push([item], (exit) => resume(Exit.isSuccess(exit) ? outcomeOf(exit.value) : Exit.failCause(exit.cause)))
  })

/** The first run has the outcome of `first`; every repetition runs `then`. */
const startingWith = (first: Write, then: Write): Write => {
  let isFirst = true
  return Effect.suspend(() => {
    const next = isFirst ? first : then
    isFirst = false
    return next
  })
}

/**
 * Retries a write while the store is unavailable and the lease holds. A try whose answer was lost may have succeeded; the
 * store recognizes its repeat, so only the last answer counts. The write runs in its own fiber, which the loss interrupts.
 */
const insist = (lease: HeldLease, write: Write): Effect.Effect<"written" | "lapsed"> =>
  Effect.withFiber((parent) =>
    Effect.callback<"written" | "lapsed", StoreUnavailable>((resume) => {
      const fiber = Effect.runForkWith(parent.context)(Effect.retry(write, retrying))
      lease.whenLost(() => {
        resume(lapsed)
        fiber.interruptUnsafe()
      })
      fiber.addObserver((exit) => resume(Exit.isSuccess(exit) ? outcomeOf(exit.value) : Exit.failCause(exit.cause)))
    }),
  ).pipe(Effect.catch(() => lapsed))

type AttemptEvent = Extract<JobEvent, { readonly type: "done" | "failed" | "attempt_failed" }>
type WithoutRef<Event> = Event extends unknown ? Omit<Event, keyof JobRef> : never
