import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import { afterFailure, type AttemptLimits, type FailureReason } from "../../domain/Attempt.ts"
import { attemptRecord } from "../../domain/AttemptRecord.ts"
import { type AttemptWait, isFinished, type Job, type Parking, type StoreUnavailable } from "../../domain/index.ts"
import { type ClaimEnd, endedOnce, isRepeatedEnd } from "../../domain/RepeatedEnd.ts"
import { inSpan, outsideOfCallers } from "../../engine/spans.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { GroupCommit, type GroupedVerb } from "../../engine/GroupCommit.ts"
import { JobEvents, refOf } from "../../engine/JobEvents.ts"
import type { JobEvent, JobRef } from "../../engine/JobEvent.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { type Deferral, type FencedOutcome, JobDirectory, JobStore } from "../../ports/index.ts"
import { ProviderPaused } from "../../providers/circuitBreaker.ts"
import { ProviderBroken } from "../../providers/ProviderError.ts"
import { retrying } from "../repeating.ts"
import { workerName } from "../workerName.ts"
import { type Attempt, storeNow } from "./Attempt.ts"
import { type AttemptEnd, logCause, postponedDelayMs, unavailableDelayMs } from "./AttemptEnd.ts"
import { afterLoss, type HeldLease, type LeaseWatch } from "./leases.ts"

type EndVerb = "completeJobs" | "failJobs" | "deferJobs" | "releaseJobs"
type ItemOf<Verb extends EndVerb> = Parameters<JobStore["Service"][Verb]>[0][number]

type Outcomes = ReadonlyArray<FencedOutcome>
type Write = Effect.Effect<Outcomes, StoreUnavailable>

/** The result of one attempt to write an end. */
export type Tried = Exit.Exit<Outcomes, StoreUnavailable>

/** A try that the store refused, or whose answer no longer matters. */
export const leaseLost: Tried = Exit.succeed(["LeaseLost"])

/**
 * Returns the function that writes one end of an attempt. If the lease is lost, it returns `ended` or `lapsed` instead. `tried` is what a
 * first try came to, if the caller has made it.
 */
const fencedWriter = Effect.fnUntraced(function* (watch: LeaseWatch) {
  const store = yield* JobStore
  const look = yield* rowReader
  const grouped = Option.getOrUndefined(Context.getOption(yield* Effect.context<JobStore>(), GroupCommit))

  // The first try joins the next shared call of the store, without a fiber.
  const attemptWrite = <Verb extends EndVerb>(
    { lease }: Attempt,
    verb: Verb,
    item: ItemOf<Verb>,
    tried?: Tried,
  ): Effect.Effect<"written" | "lapsed"> =>
    Effect.suspend(() => {
      if (tried === undefined && !lease.holdsAt(watch.now())) return lapsed
      lease.beginEnd()
      const call = store[verb] as (items: ReadonlyArray<ItemOf<Verb>>) => Write
      if (grouped === undefined) return insist(lease, call([item]))
      const join = grouped[verb] as GroupedVerb<ItemOf<Verb>, FencedOutcome>
      const first = tried ?? inSpan(`JobStore.${verb}`, pushed(lease, join, item))
      return Effect.flatMap(first, outcomeOf).pipe(
        Effect.catchTag("StoreUnavailable", (error) => insist(lease, startingWith(Effect.fail(error), call([item])))),
      )
    })

  return <Verb extends EndVerb>(
    attempt: Attempt,
    verb: Verb,
    item: ItemOf<Verb>,
    tried?: Tried,
  ): Effect.Effect<"written" | "ended" | "lapsed"> =>
    Effect.flatMap(attemptWrite(attempt, verb, item, tried), (outcome) =>
      outcome === "written" ? written : look(attempt, endOf(verb, item)),
    )
})

/** The end that a finished job has if this write is in the store. Other writes leave no trace that a later claim would not cover. */
const endOf = (verb: EndVerb, item: ItemOf<EndVerb>): ClaimEnd | undefined => {
  const { token } = item
  if (verb === "completeJobs") return { event: "completed", token }
  return verb === "failJobs" && "errorCode" in item ? { event: "failed", token, errorCode: item.errorCode } : undefined
}

/** The time after which the row is not awaited, in milliseconds. */
const rowLimitMs = 2_000

/**
 * Returns what says how the job of a lost lease stands, by its row: `written` if it has this end, whose answer was lost, and `ended` if it
 * has another one, or soon will because its time is up.
 */
const rowReader = Effect.gen(function* () {
  const directory = yield* JobDirectory
  return ({ lease }: Attempt, end?: ClaimEnd): Effect.Effect<"written" | "ended" | "lapsed"> =>
    directory.readJobs([lease.jobId]).pipe(
      Effect.timeoutOption(rowLimitMs),
      Effect.map((read): "written" | "ended" | "lapsed" => {
        const job = Option.getOrUndefined(read)?.[0]
        if (job !== undefined && end !== undefined && isRepeatedEnd(job, end)) return "written"
        // A job that another worker finished was claimed in between.
        const isOver = job !== undefined && isFinished(job) && endedOnce(job, lease.token)
        return isOver || (lease.isLast && !lease.isRefused) ? "ended" : "lapsed"
      }),
      Effect.catchCause(() => lapsed),
    )
})

/** Returns what says in the log, and to the caller, how an attempt without a lease ended. */
const lossReader = Effect.map(
  rowReader,
  (look) => (attempt: Attempt) =>
    Effect.tap(look(attempt), (how) =>
      how === "ended"
        ? Effect.logInfo("the attempt ended with its job, which was canceled or took too long")
        : Effect.logWarning("lease lost"),
    ),
)

const written = Effect.succeed("written" as const)

const outcomeOf = ([outcome]: Outcomes) => (outcome === "Written" ? written : lapsed)

/** Adds the item to the next shared call, and waits for its outcome or until the lease is lost. */
const pushed = <Item>(lease: HeldLease, verb: GroupedVerb<Item, FencedOutcome>, item: Item): Write =>
  Effect.withFiber(({ context }) =>
    Effect.callback((resume) => {
      afterLoss(lease, context, () => resume(leaseLost))
      verb.push([item], resume)
    }),
  )

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
 * store recognizes the repetition, so only the last answer counts. The write runs in its own fiber, which begins no try when
 * the lease is lost, and is interrupted some time later.
 */
const insist = (lease: HeldLease, write: Write): Effect.Effect<"written" | "lapsed"> =>
  Effect.withFiber((parent) =>
    Effect.callback<"written" | "lapsed", StoreUnavailable>((resume) => {
      const tries = Effect.suspend(() => (lease.isLost ? leaseLost : write))
      const fiber = Effect.runForkWith(parent.context)(Effect.retry(tries, retrying))
      afterLoss(lease, parent.context, () => {
        resume(lapsed)
        fiber.interruptUnsafe()
      })
      fiber.addObserver((exit) => resume(Exit.isSuccess(exit) ? outcomeOf(exit.value) : Exit.failCause(exit.cause)))
    }),
  ).pipe(Effect.catch(() => lapsed))

/**
 * The part of an attempt's end that the store has: `committed`: its result; `written`: another end; `ended`: nothing, because the job was
 * ended meanwhile; `lapsed`: nothing, because the lease was lost or the store was unavailable.
 */
export type Written = "committed" | "written" | "ended" | "lapsed"

/** The same; `stalled` if the store has nothing because this process was frozen past the end of the lease. */
export type Settled = Written | "stalled"

/** The error that an attempt threw, and its duration in milliseconds. */
export interface Thrown {
  readonly error: unknown
  readonly durationMs: number
}

/**
 * Returns the function that writes the end of an attempt, for the attempts of a worker. Emits the event of a failure. `tried` is what a
 * first try to write a completion came to, if there was one.
 */
export const endWriter = Effect.fnUntraced(function* (watch: LeaseWatch) {
  const write = yield* fencedWriter(watch)
  const withoutLease = yield* lossReader
  const events = yield* JobEvents
  const { attempts, circuit } = yield* EngineConfig
  const worker = workerName()

  const emit = (job: Job, event: WithoutRef<AttemptEvent>) => events.emit({ ...refOf(job), ...event })

  const complete = (attempt: Attempt, end: Completed, durationMs: number, tried: Tried | undefined) =>
    Effect.matchCauseEffect(write(attempt, "completeJobs", end.completion, tried), {
      onSuccess: (outcome) => (outcome === "written" ? committed : Effect.succeed(outcome)),
      // The store rejects this result, and would also reject that of another attempt.
      onFailure: (cause) =>
        Effect.andThen(
          logCause(Effect.logError, "the store rejected a result", cause),
          fail(attempt, { errorCode: "internal_error", retry: false }, { error: Cause.squash(cause), durationMs }),
        ),
    })

  const defer = (attempt: Attempt, delayMs: number, why: Pick<Deferral, "record" | "wait">) => {
    const { jobId, token } = attempt.lease
    attempt.dueInMs = delayMs
    return write(attempt, "deferJobs", { jobId, token, delayMs, countsAsFailure: why.record !== undefined, ...why })
  }

  const fail = Effect.fnUntraced(function* (
    attempt: Attempt,
    failure: Extract<AttemptEnd, { readonly _tag: "Failed" }>["failure"],
    thrown: Thrown,
  ): Effect.fn.Return<Written> {
    const { job, token } = attempt.claim
    const policy = yield* policyAfter(attempt, failure, thrown.error, attempts)
    const after = afterFailure(policy.failure, job.failures, policy.limits, yield* Random.next)
    const { errorCode } = failure
    const record = attemptRecord(thrown.error, { errorCode, durationMs: thrown.durationMs, worker })
    if (after.next === "defer") {
      const retryInMs = after.delayMs
      const deferred = yield* defer(attempt, retryInMs, { record })
      if (deferred === "written")
        emit(job, { type: "attempt_failed", attempt: job.attempts, errorCode, retryInMs, ...thrown })
      return deferred
    }
    const end = { jobId: job.id, token, errorCode: after.errorCode, message: failure.publicMessage, record }
    const failed = yield* write(attempt, "failJobs", end)
    if (failed === "written")
      emit(job, { type: "failed", attempt: job.attempts, errorCode: after.errorCode, ...thrown })
    return failed
  })

  const writeEnd = (attempt: Attempt, end: AttemptEnd, thrown: Thrown, tried?: Tried): Effect.Effect<Written> => {
    const { job, token } = attempt.claim
    const wait = (delayMs: number, why: Parameters<typeof waitOf>[0]) =>
      defer(attempt, delayMs, { wait: waitOf(why, thrown.error, attempt.kind) })
    switch (end._tag) {
      case "Completed":
        return complete(attempt, end, thrown.durationMs, tried)
      case "LeaseLost":
        return withoutLease(attempt)
      case "Released":
        return write(attempt, "releaseJobs", { jobId: job.id, token })
      case "Unavailable":
        return wait(unavailableDelayMs(end.what, job.attempts, attempts, circuit), end)
      case "Parked":
        return park(write, watch, attempt, end.park)
      case "Postponed":
        return wait(postponedDelayMs(end.delayMs, attempts), end)
      case "Failed":
        return fail(attempt, end.failure, thrown)
    }
  }

  return (attempt: Attempt, end: AttemptEnd, thrown: Thrown, tried?: Tried): Effect.Effect<Written> =>
    Effect.catchCause(writeEnd(attempt, end, thrown, tried), (cause) =>
      Effect.as(logCause(Effect.logError, "failed to write the end of an attempt", cause), "lapsed" as const),
    )
})

/** Parks the job. Its event may have come already, so it may be due at once. */
const park = (
  write: Effect.Success<ReturnType<typeof fencedWriter>>,
  watch: LeaseWatch,
  attempt: Attempt,
  on: Parking,
): Effect.Effect<Written> => {
  const { jobId, token } = attempt.lease
  const isTimed = on.reason === "sleep" || on.reason === "gate"
  attempt.dueInMs = isTimed ? Math.max(0, (on.until ?? 0) - storeNow(attempt, watch)) : 0
  return write(attempt, "deferJobs", { jobId, token, delayMs: 0, countsAsFailure: false, park: on })
}

const committed = Effect.succeed("committed" as const)
const lapsed = Effect.succeed("lapsed" as const)
type Completed = Extract<AttemptEnd, { readonly _tag: "Completed" }>
type AttemptEvent = Extract<JobEvent, { readonly type: "failed" | "attempt_failed" }>
type WithoutRef<Event> = Event extends unknown ? Omit<Event, keyof JobRef> : never

type Waiting = Extract<AttemptEnd, { readonly _tag: "Unavailable" | "Postponed" }>

const wait = (reason: AttemptWait["reason"], subject: string | null = null, cause: string | null = null) => ({
  reason,
  subject,
  cause,
})

/** Returns why an attempt of this kind ended to wait, from its end and what it threw. */
const waitOf = (end: Waiting, error: unknown, { providers }: Pick<JobKind, "providers">): AttemptWait => {
  const names = [...new Set(providers.flat())].join(", ")
  const ofProvider = (cause: string) =>
    wait("provider", error instanceof ProviderPaused ? error.provider : names === "" ? null : names, cause)
  if (end._tag === "Postponed") return ofProvider("postponed")
  switch (end.what) {
    case "ProviderPaused":
      return ofProvider("paused")
    case "ProviderBroken":
      return ofProvider(error instanceof ProviderBroken ? error.reason : "failing")
    case "StoreUnavailable":
      return wait("store")
    case "BlobUnavailable":
      return wait("blobs")
  }
}

interface Policy {
  readonly failure: FailureReason
  readonly limits: AttemptLimits
}

/**
 * Applies the kind's retry policy to a failure. An exception in one of its functions is logged, and the job is retried as if the
 * kind had no policy: a bug in the policy must not decide about a job.
 */
const policyAfter = (
  { claim: { job }, kind: { limits, retry } }: Attempt,
  failure: FailureReason,
  error: unknown,
  attempts: AttemptLimits,
): Effect.Effect<Policy> => {
  const policy: Policy = { failure, limits: { ...attempts, maxFailures: limits.maxFailures ?? attempts.maxFailures } }
  if (!failure.retry || (retry.backoff === undefined && retry.retryIf === undefined)) return Effect.succeed(policy)
  return Effect.catchCause(
    Effect.sync((): Policy => {
      if (
        noPromise(
          "retryIf",
          outsideOfCallers(() => retry.retryIf?.(error)),
        ) === false
      )
        return { ...policy, failure: { ...failure, retry: false } }
      const { backoff } = retry
      if (backoff === undefined) return policy
      if (typeof backoff !== "function") return { ...policy, limits: withBounds(policy.limits, backoff) }
      const delayMs = noPromise(
        "backoff",
        outsideOfCallers(() => backoff(job.failures + 1, error)),
      )
      if (!(delayMs >= 0)) throw new TypeError("retry.backoff must return a non-negative number of milliseconds")
      return { ...policy, failure: { ...failure, backoffMs: Math.min(delayMs, longestBackoffMs) } }
    }),
    (cause) => Effect.as(logCause(Effect.logError, "the retry policy of a kind failed", cause), policy),
  )
}

/** A promise says nothing in time. Its rejection must not become an unhandled one, which ends the process. */
const noPromise = <A>(name: string, value: A): A => {
  if (typeof value !== "object" || value === null) return value
  Promise.resolve(value).catch(() => undefined)
  throw new TypeError(`retry.${name} must return its value, not a promise`)
}

/** A job is delayed by at most as long as one can be when it is submitted. */
const longestBackoffMs = 366 * 24 * 3_600_000

const withBounds = (
  limits: AttemptLimits,
  { baseMs = limits.backoffBaseMs, maxMs = limits.backoffMaxMs }: { readonly baseMs?: number; readonly maxMs?: number },
): AttemptLimits => ({ ...limits, backoffBaseMs: baseMs, backoffMaxMs: Math.max(baseMs, maxMs) })
