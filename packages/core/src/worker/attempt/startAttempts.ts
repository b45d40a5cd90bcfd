import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import { traceOf } from "../../domain/JobTrace.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { JobEvents } from "../../engine/JobEvents.ts"
import { OpenSpan, type SpanOptions } from "../../engine/spans.ts"
import { installedKinds } from "../../kinds/installedKinds.ts"
import type { Claim } from "../../ports/index.ts"
import { Attempt } from "./Attempt.ts"
import { HeldLease } from "./HeldLease.ts"
import { needsIsolation } from "./Isolation.ts"
import { attemptRunner } from "./RunAttempt.ts"
import type { Slots } from "../claiming/Slots.ts"

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
