import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import { submittedOf } from "../../domain/index.ts"
import { traceOf } from "../../domain/JobMetadata.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { GroupCommit } from "../../engine/GroupCommit.ts"
import { JobEvents, refOf } from "../../engine/JobEvents.ts"
import { OpenSpan, type SpanOptions } from "../../engine/spans.ts"
import type { AttemptError, AttemptResult } from "../../kinds/AttemptContext.ts"
import { installedKinds } from "../../kinds/installedKinds.ts"
import { BlobStore, type Claim, JobStore } from "../../ports/index.ts"
import { needsIsolation, type Slots } from "../claiming/Slots.ts"
import { AttemptMeter, type AttemptOutcome } from "../metrics/jobMetrics.ts"
import { Attempt } from "./Attempt.ts"
import type { AttemptEnd } from "./AttemptEnd.ts"
import { attemptWork } from "./attemptWork.ts"
import { afterLoss, HeldLease } from "./leases.ts"
import { type LoggedEnd, readEnd } from "./readEnd.ts"
import { endWriter, leaseLost, type Settled, type Tried, type Written } from "./writeEnd.ts"

type Needs =
  | JobStore
  | BlobStore
  | JobEvents
  | Effect.Services<ReturnType<typeof attemptWork>>
  | Effect.Services<ReturnType<typeof endWriter>>

/** Runs an effect in its own fiber, because the current one may already be interrupted. */
const inOwnFiber = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((parent) =>
    Effect.callback<A, E>((resume) => {
      Effect.runForkWith(parent.context as Context.Context<R>)(effect).addObserver(resume)
    }),
  )

/** Runs attempts of one worker. */
export interface AttemptRunner {
  /** Runs an attempt in fibers of its own, and frees its slot. */
  readonly start: (attempt: Attempt, context: Context.Context<never>) => void
}

/** Returns what writes the ends of attempts in a fiber, and what reports them. */
const finisher = Effect.fnUntraced(function* (slots: Slots) {
  const writeEnd = yield* endWriter(slots.watch)
  const cleanUp = yield* cleaner(slots)
  const meter = yield* AttemptMeter
  const events = yield* JobEvents

  /** Reports how an attempt ended. */
  const report = (attempt: Attempt, end: LoggedEnd, settled: Settled): void => {
    const { job } = attempt.claim
    const outcome = outcomeOf(end, settled)
    if (settled === "committed") events.emit({ type: "completed", ...refOf(job) })
    meter?.ended(job, outcome, slots.watch.now() - attempt.beganAtMs, chargeOf(end, settled))
    attempt.span?.attribute("kiln.attempt.outcome", outcome)
    attempt.span?.end(outcome === "failed" ? Exit.fail(end.error) : Exit.void)
  }

  /** Writes the end of an attempt and cleans up. `tried`: what the first try to write it came to, if there was one. */
  const finish = Effect.fnUntraced(function* (attempt: Attempt, end: LoggedEnd, tried?: Tried): Effect.fn.Return<void> {
    if (end.log !== undefined) yield* end.log
    if (end._tag === "Unavailable" && end.what === "BlobUnavailable") slots.withhold(attempt)
    const durationMs = attempt.endedAtMs - attempt.beganAtMs
    if (isWait(end) && attempt.reports !== undefined) yield* attempt.reports.writeLast
    // Those of a result are written before it.
    if (end._tag !== "Completed" && end._tag !== "LeaseLost" && attempt.chunks !== undefined)
      yield* attempt.chunks.writeLast
    const written = yield* writeEnd(attempt, end, { error: end.error, durationMs }, tried)
    const settled = written === "committed" ? written : yield* cleanUp(attempt, written)
    slots.settle(attempt, settled)
    report(attempt, end, settled)
    yield* slots.announceRoom
  })

  return { finish, report }
})

/**
 * Returns what runs the attempts of a worker: it runs the kind, checks the result, classifies the end, writes it and cleans up. Only
 * the kind's work can be interrupted, when the lease is lost or the worker stops. The end is always written, unless the lease is lost.
 */
const attemptRunner = Effect.fnUntraced(function* (slots: Slots): Effect.fn.Return<AttemptRunner, never, Needs> {
  const { isolation, watch } = slots
  const { defaultCurrency } = yield* EngineConfig
  const work = yield* attemptWork(slots)
  const { finish, report } = yield* finisher(slots)
  const grouped = Option.getOrUndefined(Context.getOption(yield* Effect.context<Needs>(), GroupCommit))

  const endOf = (attempt: Attempt, exit: Exit.Exit<AttemptResult, AttemptError>): LoggedEnd => {
    if (attempt.hasBegun) isolation.end()
    attempt.reports?.end()
    attempt.chunks?.end()
    const end = readEnd(attempt, exit, defaultCurrency)
    attempt.endedAtMs = watch.now()
    // Its end may wake its parent or a job that starts after it, for which this worker then looks at once.
    const { job } = attempt.claim
    if (submittedOf(job).parent !== undefined || slots.awaited.has(job.id)) attempt.dueInMs ??= 0
    return end
  }

  const finishInFiber = (attempt: Attempt, end: LoggedEnd, context: Context.Context<never>, tried?: Tried): void => {
    const fiber = Effect.runForkWith(context)(finish(attempt, end, tried), { uninterruptible: true })
    fiber.addObserver(() => slots.free(attempt))
  }

  /**
   * Ends an attempt whose work is over. Most completions join the next shared call of the store and are written by it; such an
   * attempt needs no fiber any more.
   */
  const endWork = (
    attempt: Attempt,
    exit: Exit.Exit<AttemptResult, AttemptError>,
    context: Context.Context<never>,
  ): void => {
    const end = endOf(attempt, exit)
    const isPlain = end._tag === "Completed" && end.log === undefined
    if (!isPlain || grouped === undefined || !attempt.lease.holdsAt(attempt.endedAtMs))
      return finishInFiber(attempt, end, context)
    let isSettled = false
    const settle = (tried: Tried): void => {
      if (isSettled) return
      isSettled = true
      if (!isWritten(tried)) return finishInFiber(attempt, end, context, tried)
      try {
        report(attempt, end, "committed")
        if (slots.isLimited()) Effect.runForkWith(context)(slots.announceRoom)
      } finally {
        slots.free(attempt)
      }
    }
    attempt.lease.beginEnd()
    afterLoss(attempt.lease, context, () => settle(leaseLost))
    const span = attempt.span && new OpenSpan(context, "JobStore.completeJobs")
    grouped.completeJobs.push([end.completion], (tried) => {
      span?.end(tried)
      settle(tried)
    })
  }

  return {
    start: (attempt, context) => {
      // Ended inside the fiber: a fiber that has ended first waits for those that the kind has forked and left.
      const run = Effect.flatMap(Effect.exit(Effect.interruptible(work(attempt))), (exit) =>
        Effect.sync(() => endWork(attempt, exit, context)),
      )
      const fiber = Effect.runForkWith(context)(run, { uninterruptible: true })
      fiber.addObserver((exit) => {
        if (Exit.isSuccess(exit)) return
        attempt.span?.end(exit)
        slots.free(attempt)
      })
    },
  }
})

/** Returns what cleans up after an attempt whose result is not stored. */
const cleaner = Effect.fnUntraced(function* ({ watch }: Slots) {
  const {
    attempts: { maxLostWorkers },
  } = yield* EngineConfig
  const removeOrphans = yield* orphanRemover
  return Effect.fnUntraced(function* (attempt: Attempt, written: Written): Effect.fn.Return<Settled> {
    const stalledMs = written === "lapsed" ? watch.frozenMs(attempt.lease) : 0
    if (stalledMs > 0) yield* logStall(attempt, stalledMs, maxLostWorkers)
    if (attempt.hasWritten) yield* inOwnFiber(removeOrphans(attempt))
    return stalledMs > 0 ? "stalled" : written
  })
})

const outcomeOf = (end: AttemptEnd, settled: Settled): AttemptOutcome => {
  if (settled === "committed") return "done"
  if (settled === "ended" || settled === "stalled") return settled
  if (settled === "lapsed") return "lease_lost"
  if (end._tag === "Released") return "released"
  return isWait(end) ? "deferred" : "failed"
}

/** Whether the job waits after this end, still in progress. */
const isWait = ({ _tag }: AttemptEnd): boolean => _tag === "Unavailable" || _tag === "Postponed" || _tag === "Parked"

const chargeOf = (end: AttemptEnd, settled: Settled) =>
  end._tag === "Completed" && settled === "committed" ? end.completion.charge : null

/** Logs a blocked event loop. This attempt blocked it, or a concurrent one did. */
const logStall = ({ claim: { job }, isolated, kind }: Attempt, stalledMs: number, maxLostWorkers: number) => {
  const about = `attempt ${job.attempts} of ${job.id} (${kind.name})`
  const blocked = `the event loop past its lease, for ${(stalledMs / 1_000).toFixed(1)} s`
  const counted = `counted as a lost worker, ${job.lostWorkers + 1} of ${maxLostWorkers}`
  return Effect.logError(
    isolated?.wasAlone() === true
      ? `${about} blocked ${blocked}; ${counted}`
      : `${about} or a concurrent attempt blocked ${blocked}; ${counted}. Move synchronous work to a worker thread`,
  )
}

/**
 * Removes blobs of an attempt that no row will ever name. The store decides which ones, because a completion whose answer was
 * lost may be committed. The sweep removes any that remain.
 */
const orphanRemover = Effect.gen(function* () {
  const store = yield* JobStore
  const blobs = yield* BlobStore
  return ({ claim, written }: Attempt) =>
    Effect.gen(function* () {
      const orphans = yield* store.findOrphans(
        written.map((blobKey) => ({ blobKey, jobId: claim.job.id, token: claim.token })),
      )
      // `ahead`: the record has not reached this token, so it belongs to an older copy of the store.
      const own = orphans.filter(({ reason }) => reason !== "ahead")
      yield* Effect.forEach(own, ({ blobKey }) => blobs.remove(blobKey), { discard: true })
    }).pipe(Effect.ignore)
})

/** Starts attempts of claimed jobs. */
export interface AttemptStarter {
  /**
   * Gives the jobs of a claim their slots and holds their leases. Each of the attempts must be begun then. `askedAtMs` is the start
   * of the claim, in milliseconds of the monotonic clock.
   */
  readonly take: (claims: ReadonlyArray<Claim>, askedAtMs: number) => ReadonlyArray<Attempt>
  /** Begins attempts, each in fibers of its own with the context of the caller. */
  readonly begin: (attempts: ReadonlyArray<Attempt>) => Effect.Effect<void>
}

/** Returns what starts the attempts of a worker. */
export const attemptStarter = Effect.fnUntraced(function* (slots: Slots) {
  const {
    attempts: { maxLostWorkers },
    leaseDurationMs,
  } = yield* EngineConfig
  const events = yield* JobEvents
  const kinds = new Map((yield* installedKinds).map((kind) => [kind.name, kind]))
  const runner = yield* attemptRunner(slots)

  const attemptAt = (claim: Claim, askedAtMs: number): Attempt => {
    const { job, leaseRemainingMs, token } = claim
    const kind = kinds.get(job.kind)
    if (kind === undefined) throw new Error(`claimed a job of the unknown kind ${job.kind}`)
    const lease = new HeldLease({ jobId: job.id, token }, askedAtMs, leaseRemainingMs, leaseDurationMs)
    const isolated = needsIsolation(job, maxLostWorkers) ? slots.isolation.isolate(slots.watch.now()) : undefined
    return new Attempt(kind, claim, lease, isolated)
  }

  const begin = (attempt: Attempt, context: Context.Context<never>, annotated: object, isTraced: boolean): void => {
    const { attempts: count, id: jobId, kind, mode, projectId } = attempt.claim.job
    events.emit({ type: "active", jobId, kind, mode, projectId, attempt: count })
    const annotations = { ...annotated, jobId, projectId, attempt: count }
    const own = Context.add(context, References.CurrentLogAnnotations, annotations)
    if (isTraced) attempt.span = new OpenSpan(own, "Worker.attempt", attemptSpan(attempt))
    runner.start(attempt, attempt.span?.within(own) ?? own)
  }

  const starter: AttemptStarter = {
    take: (claims, askedAtMs) => {
      const attempts = claims.map((claim) => attemptAt(claim, askedAtMs))
      for (const attempt of attempts) slots.take(attempt)
      return attempts
    },
    begin: (attempts) =>
      Effect.withFiber(({ cache, context }) => {
        const annotated = Context.get(context, References.CurrentLogAnnotations)
        for (const attempt of attempts) begin(attempt, context, annotated, cache.tracer !== undefined)
        return Effect.void
      }),
  }
  return starter
})

/** The span of an attempt is part of the trace of the request that created the job. */
const attemptSpan = ({ claim: { job } }: Attempt): SpanOptions => {
  const trace = traceOf(job)
  return {
    kind: "consumer",
    attributes: {
      "kiln.job.id": job.id,
      "kiln.job.kind": job.kind,
      "kiln.job.mode": job.mode,
      "kiln.job.attempt": job.attempts,
      "kiln.project.id": job.projectId,
    },
    ...(trace !== undefined && { parent: Tracer.externalSpan(trace) }),
  }
}

/** Waits until these attempts have ended. */
export const allEnded = (attempts: Iterable<Attempt>): Effect.Effect<void> =>
  Effect.callback((resume) => {
    let left = 1
    const one = (): void => {
      left -= 1
      if (left === 0) resume(Effect.void)
    }
    for (const attempt of attempts) {
      left += 1
      attempt.whenOver(one)
    }
    one()
  })

/** Interrupts these attempts, and waits until each has released its job. */
export const stopAll = (attempts: Iterable<Attempt>): Effect.Effect<void> =>
  Effect.suspend(() => {
    const stopped = [...attempts]
    for (const attempt of stopped) attempt.stop()
    return allEnded(stopped)
  })

const isWritten = (tried: Tried): boolean => Exit.isSuccess(tried) && tried.value[0] === "Written"
