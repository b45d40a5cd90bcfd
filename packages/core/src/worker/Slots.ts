import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as References from "effect/References"
import {
  isLimiting,
  type Job,
  jobBlobKey,
  type JobMode,
  type ProjectId,
  projectShare,
  type WorkerRoom,
} from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobEvents, refOf } from "../engine/JobEvents.ts"
import { inSpan } from "../engine/spans.ts"
import { JobKinds } from "../kinds/JobKinds.ts"
import { type Claim, type ClaimRef, WakeUp } from "../ports/index.ts"
import { Providers } from "../providers/index.ts"
import { ProviderGuard } from "../providers/ProviderGuard.ts"
import { Attempt } from "./Attempt.ts"
import { HeldLease } from "./HeldLease.ts"
import { makeIsolation, needsIsolation } from "./Isolation.ts"
import { LeaseWatch } from "./LeaseWatch.ts"
import { limitsWith } from "./limitsWith.ts"
import { attemptRunner, type Settled } from "./RunAttempt.ts"
import { servedBy } from "./runnableKinds.ts"

interface Share {
  readonly mode: JobMode
  readonly projectId: ProjectId
  count: number
}

/** Counts the jobs in a worker's slots. */
const makeRoom = (concurrency: number, perProject: number) => {
  const free: Record<JobMode, number> = { live: concurrency, sandbox: concurrency }
  const held: Record<JobMode, Map<ProjectId, Share>> = { live: new Map(), sandbox: new Map() }
  return {
    take: ({ mode, projectId }: Job): void => {
      free[mode] -= 1
      const share = held[mode].get(projectId)
      if (share === undefined) held[mode].set(projectId, { mode, projectId, count: 1 })
      else share.count += 1
    },
    giveBack: ({ mode, projectId }: Job): void => {
      free[mode] += 1
      const share = held[mode].get(projectId)
      if (share === undefined) return
      share.count -= 1
      if (share.count === 0) held[mode].delete(projectId)
    },
    now: (): WorkerRoom => ({
      free: { ...free },
      perProject,
      held: [...held.live.values(), ...held.sandbox.values()].map((share) => ({ ...share })),
    }),
  }
}

/** The jobs that a worker holds. */
export const makeSlots = Effect.fnUntraced(function* (onEnd: () => void) {
  const { attempts: attemptLimits, concurrency, leaseDurationMs, limits } = yield* EngineConfig
  const wakeUp = yield* WakeUp
  const guard = yield* ProviderGuard
  const events = yield* JobEvents
  const { live } = yield* Providers
  const known = yield* JobKinds
  const installationLimits = limitsWith(limits, known)
  const kinds = new Map(known.map((kind) => [kind.name, kind]))
  /** The live providers that each kind asks here. */
  const liveNames = new Map(known.map((kind) => [kind.name, servedBy(live, kind) ?? []]))
  const room = makeRoom(concurrency, limits.perProject === "share" ? projectShare(concurrency) : 0)
  const watch = new LeaseWatch(yield* Clock.Clock, leaseDurationMs)
  const isolation = makeIsolation(leaseDurationMs)
  const runAttempt = yield* attemptRunner(isolation, watch)
  const attempts = new Set<Attempt>()
  const lapsed = new Set<ClaimRef>()
  const withheld = new Map<string, string>()
  let nextFreed: Deferred.Deferred<void> | undefined
  // Where jobs are limited, one that ended is room for another, in any process.
  const announceRoom = isLimiting(installationLimits) ? wakeUp.notify : Effect.void

  const settle = ({ claim: { job, token }, kind, lease }: Attempt, settled: Settled): void => {
    // A job that stood still past its lease stays held: the next claim, here or elsewhere, counts it as a lost worker.
    if (settled === "lapsed" && !lease.isLast) lapsed.add({ jobId: job.id, token })
    // The token of this claim is spent, so nothing else is or will be under its keys.
    if (settled === "blobs_away") withheld.set(kind.name, jobBlobKey(job.id, token, "probe"))
  }

  const attemptInSpan = (attempt: Attempt) =>
    inSpan("Worker.attempt", runAttempt(attempt), {
      jobId: attempt.claim.job.id,
      kind: attempt.kind.name,
      attempt: attempt.claim.job.attempts,
    })

  const runToEnd = Effect.fnUntraced(function* (attempt: Attempt) {
    settle(attempt, yield* attemptInSpan(attempt))
    yield* announceRoom
  })

  /** Takes a slot. Returns the function that frees it. */
  const occupy = (attempt: Attempt): (() => void) => {
    const { claim: { job }, isolated, kind, lease } = attempt
    const names = job.mode === "live" ? (liveNames.get(kind.name) ?? []) : []
    watch.add(lease)
    room.take(job)
    guard.countJobs(names, 1)
    const stopListening = events.listenTo(job.id, ({ type }) => {
      if (type === "canceled") lease.lose()
    })
    return () => {
      attempts.delete(attempt)
      watch.delete(lease)
      room.giveBack(job)
      guard.countJobs(names, -1)
      stopListening()
      if (isolated !== undefined) isolation.leave(isolated, watch.now())
      const freed = nextFreed
      nextFreed = undefined
      if (freed !== undefined) Deferred.doneUnsafe(freed, Effect.void)
      onEnd()
    }
  }

  return {
    attempts,
    /** Ends leases whose time is up. Must run while there are attempts. */
    watch,
    isolation,
    /** The limits of the whole installation. */
    installationLimits,
    /** Live and sandbox jobs have `concurrency` slots each. */
    room: room.now,
    /**
     * Claims whose end could not be written, most likely because the store was unavailable for longer than their leases. They
     * are released before anything is claimed, or the store would count this worker, which is alive, as lost.
     */
    lapsed,
    /**
     * Kinds whose last attempt found the blob store unavailable, each with a key to try it with. They are not claimed until it
     * is back: every claim would buy a result that cannot be kept. Kinds that write no file go on.
     */
    withheld,
    /** Completes when the next job leaves its slot, counted from this call. */
    nextFreed: (): Effect.Effect<void> => Deferred.await((nextFreed ??= Deferred.makeUnsafe<void>())),
    /**
     * Starts attempts at claimed jobs, each in one fiber with the context of the caller. `askedAtMs` is when the claims were
     * asked for, in milliseconds of the monotonic clock.
     */
    start: (claims: ReadonlyArray<Claim>, askedAtMs: number): Effect.Effect<ReadonlyArray<Attempt>> =>
      Effect.withFiber((parent) => {
        const { context } = parent
        const annotations = Context.get(context, References.CurrentLogAnnotations)
        const started: Array<Attempt> = []
        const unknown: Array<string> = []
        for (const claim of claims) {
          const { job } = claim
          const kind = kinds.get(job.kind)
          if (kind === undefined) {
            unknown.push(job.kind)
            continue
          }
          const lease = new HeldLease({ jobId: job.id, token: claim.token }, askedAtMs, claim.leaseRemainingMs, leaseDurationMs)
          const isIsolated = needsIsolation(job, attemptLimits.maxLostWorkers)
          const attempt = new Attempt(kind, claim, lease, isIsolated ? isolation.isolate(watch.now()) : undefined)
          const free = occupy(attempt)
          events.emit({ type: "started", ...refOf(job), attempt: job.attempts })
          const annotated = Context.add(context, References.CurrentLogAnnotations, {
            ...annotations,
            jobId: job.id,
            attempt: job.attempts,
          })
          const fiber = Effect.runForkWith(annotated)(runToEnd(attempt), { uninterruptible: true })
          started.push(attempt)
          if (fiber.pollUnsafe() === undefined) attempts.add(attempt)
          fiber.addObserver(free)
        }
        return unknown.length === 0
          ? Effect.succeed(started)
          : Effect.die(new Error(`claimed jobs of unknown kinds: ${unknown.join(", ")}`))
      }),
  }
})

/** Waits until these attempts have ended. */
export const allEnded = (attempts: Iterable<Attempt>): Effect.Effect<void> =>
  Effect.suspend(() => Effect.asVoid(Fiber.awaitAll([...attempts].flatMap(({ fiber }) => fiber ?? []))))

/** Interrupts these attempts, and waits until each has released its job as its last act. */
export const stopAll = (attempts: Iterable<Attempt>): Effect.Effect<void> =>
  Effect.suspend(() => {
    const stopped = [...attempts]
    for (const attempt of stopped) attempt.stop()
    return allEnded(stopped)
  })

/** Whether a job that leaves its slot may make room for one that is passed over now. */
export const isTight = ({ free, held, perProject }: WorkerRoom): boolean =>
  free.live <= 0 || free.sandbox <= 0 || (perProject > 0 && held.some(({ count }) => count >= perProject))

export type Slots = Effect.Success<ReturnType<typeof makeSlots>>
