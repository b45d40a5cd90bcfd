import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import {
  type Board,
  type ConcurrencyLimits,
  type Job,
  jobBlobKey,
  type JobId,
  type JobMode,
  type ProjectId,
} from "../../domain/index.ts"
import { isLimiting, projectShare } from "../../domain/rules.ts"
import type { EngineLimits, WorkerRoom } from "../../domain/JobsInProgress.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { JobEvents } from "../../engine/JobEvents.ts"
import { installedKinds } from "../../kinds/installedKinds.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { type ClaimRef, WakeUp } from "../../ports/index.ts"
import { Providers } from "../../providers/index.ts"
import { ProviderGuard } from "../../providers/ProviderGuard.ts"
import type { Attempt, IsolatedRun } from "../attempt/Attempt.ts"
import { Batches } from "../attempt/Batches.ts"
import { Bag, LeaseWatch } from "../attempt/leases.ts"
import type { Settled } from "../attempt/writeEnd.ts"
import { Rates, servedBy } from "./conditions.ts"
import { monotonicMs } from "../../domain/monotonicMs.ts"

/**
 * Combines the installation's limits with those of the kinds; the lower one applies. A project's share is a limit of each
 * worker, not included here.
 */
export const limitsWith = ({ perKind, perProject }: EngineLimits, kinds: ReadonlyArray<JobKind>): ConcurrencyLimits => {
  // A kind may have the name of a property that every object has, such as `constructor`.
  const given = new Map(Object.entries(perKind))
  const own = kinds.flatMap(({ limits: { concurrency }, name }) =>
    concurrency === undefined ? [] : [[name, Math.min(concurrency, given.get(name) ?? Infinity)] as const],
  )
  return {
    perKind: { ...perKind, ...Object.fromEntries(own) },
    perProject: perProject === "share" ? 0 : perProject,
  }
}

/** Jobs that are remembered. */
const maxKept = 10_000

/**
 * The newest jobs that others wait for. A worker that ends one looks for the waiting job at once, which need not be its own. A job that is
 * not remembered only costs the time until the next poll.
 */
export interface AwaitedJobs {
  readonly add: (ids: ReadonlyArray<JobId>) => void
  readonly has: (id: JobId) => boolean
}

const makeAwaitedJobs = (): AwaitedJobs => {
  const kept = new Set<JobId>()
  return {
    add: (ids) => {
      for (const id of ids) {
        kept.delete(id)
        kept.add(id)
      }
      for (const id of kept) {
        if (kept.size <= maxKept) return
        kept.delete(id)
      }
    },
    has: (id) => kept.has(id),
  }
}

interface Share {
  readonly mode: JobMode
  readonly projectId: ProjectId
  count: number
}

/** Counts the jobs in a worker's slots. Live and sandbox jobs have `concurrency` slots each. */
export class Room {
  readonly #share: number
  readonly #free: Record<JobMode, number>
  readonly #held: Record<JobMode, Map<ProjectId, Share>>

  private constructor(share: number, free: Record<JobMode, number>, held: Record<JobMode, Map<ProjectId, Share>>) {
    this.#share = share
    this.#free = free
    this.#held = held
  }

  /**
   * All slots are free. With `"share"`, a project that is alone in the slots of a worker may hold all of them; beside others, it gets no more
   * than its share. The next project gets each slot that becomes free until the first one is down to its share.
   */
  static empty(concurrency: number, perProject: number | "share"): Room {
    const share = perProject === "share" ? projectShare(concurrency) : 0
    return new Room(share, { live: concurrency, sandbox: concurrency }, { live: new Map(), sandbox: new Map() })
  }

  copy(): Room {
    const copied = (mode: JobMode) =>
      new Map([...this.#held[mode].values()].map((share) => [share.projectId, { ...share }]))
    return new Room(this.#share, { ...this.#free }, { live: copied("live"), sandbox: copied("sandbox") })
  }

  take({ mode, projectId }: Job): void {
    this.#free[mode] -= 1
    const share = this.#held[mode].get(projectId)
    if (share === undefined) this.#held[mode].set(projectId, { mode, projectId, count: 1 })
    else share.count += 1
  }

  free({ mode, projectId }: Job): void {
    this.#free[mode] += 1
    const share = this.#held[mode].get(projectId)
    if (share === undefined) return
    share.count -= 1
    if (share.count === 0) this.#held[mode].delete(projectId)
  }

  now(): WorkerRoom {
    return {
      free: { ...this.#free },
      perProject: this.#held.live.size > 1 || this.#held.sandbox.size > 1 ? this.#share : 0,
      held: [...this.#held.live.values(), ...this.#held.sandbox.values()].map((share) => ({ ...share })),
    }
  }
}

/** Returns whether a job that leaves its slot may make room for a job that could not be claimed before. */
export const isTight = ({ free, held, perProject }: WorkerRoom): boolean =>
  free.live <= 0 || free.sandbox <= 0 || (perProject > 0 && held.some(({ count }) => count >= perProject))

/** Returns the room that there is when the attempts of these claims have left their slots. */
export const roomWithout = (room: Room, attempts: Iterable<Attempt>, ended: ReadonlyArray<ClaimRef>): WorkerRoom => {
  const tokens = new Map(ended.map(({ jobId, token }) => [jobId, token]))
  const left = room.copy()
  for (const { claim, lease } of attempts) if (tokens.get(lease.jobId) === lease.token) left.free(claim.job)
  return left.now()
}

/** Returns the room that is left when these attempts have taken their slots, and no other has left its own. */
export const roomAfter = (room: Room, attempts: ReadonlyArray<Attempt>): WorkerRoom => {
  const left = room.copy()
  for (const { claim } of attempts) left.take(claim.job)
  return left.now()
}

/**
 * Returns whether the next lost worker would fail the job. When a worker dies or freezes, all its attempts are lost, and the cause
 * is unknown. The earlier losses may have been caused by other jobs, so the last attempt starts in isolation.
 */
export const needsIsolation = ({ lostWorkers }: Pick<Job, "lostWorkers">, maxLostWorkers: number): boolean =>
  lostWorkers > 0 && lostWorkers + 1 >= maxLostWorkers

/** The maximum time that a job waits for the worker's other attempts to end, in leases. It waits under its own lease. */
const leasesOfWaiting = 1
/**
 * The time, in leases from its start, in which the worker starts no other job. A job that blocks or kills its worker again does so by
 * then.
 */
const leasesAlone = 2

/** The time, as a share of a lease, in which other jobs are claimed after an isolated job before the next isolated one. */
const shareOfRest = 1 / 6
/** The shortest delay of a job that cannot be isolated now, as a share of a lease. */
const shareOfDelay = 1 / 3

interface Tracked extends IsolatedRun {
  /**
   * The time until which the worker claims nothing else, in milliseconds of the monotonic clock. The start of the attempt may
   * shorten it.
   */
  exclusiveUntilMs: number
  /** The number of attempts begun so far, this one included; `undefined` if another one ran at its start. */
  beganAs: number | undefined
}

/** Coordinates the attempts of one process: they run concurrently, or one of them is isolated for a while. */
const makeIsolation = (leaseDurationMs: number) => {
  let running = 0
  let begun = 0
  let quiet: Deferred.Deferred<void> | undefined
  const isolated = new Map<IsolatedRun, Tracked>()
  let lastEndedAtMs = -Infinity

  const longest = (least: number, of: (run: Tracked) => number) =>
    [...isolated.values()].reduce((most, run) => Math.max(most, of(run)), least)

  const untilQuiet: Effect.Effect<void> = Effect.suspend(() =>
    running === 0 ? Effect.void : Deferred.await((quiet ??= Deferred.makeUnsafe<void>())),
  )
  const waitUntilQuiet = Effect.asVoid(Effect.timeoutOption(untilQuiet, leasesOfWaiting * leaseDurationMs))

  return {
    /** Must be called when an attempt begins its work, isolated or not. `now` returns milliseconds of the monotonic clock. */
    begin: (run: IsolatedRun | undefined, now: () => number): void => {
      const tracked = run && isolated.get(run)
      begun += 1
      if (tracked !== undefined) {
        tracked.exclusiveUntilMs = Math.min(tracked.exclusiveUntilMs, now() + leasesAlone * leaseDurationMs)
        tracked.beganAs = running === 0 ? begun : undefined
      }
      running += 1
    },
    /** Must be called when an attempt has ended its work. */
    end: (): void => {
      running -= 1
      if (running > 0 || quiet === undefined) return
      Deferred.doneUnsafe(quiet, Effect.void)
      quiet = undefined
    },
    /**
     * Isolates an attempt: it waits up to a lease until no other attempt runs, and then has the worker to itself for two leases,
     * or until it ends. Other jobs therefore wait for it for at most three leases, however long it runs.
     *
     * The cost: if a job kills or blocks its worker later than that, or while another attempt is still running, all concurrent
     * jobs lose their worker too. An innocent job that needs isolation may then fail, but only through an attempt that had lost
     * fewer workers, because a worker never runs two isolated jobs at the same time.
     */
    isolate: (claimedAtMs: number): IsolatedRun => {
      const run: Tracked = {
        claimedAtMs,
        exclusiveUntilMs: claimedAtMs + (leasesOfWaiting + leasesAlone) * leaseDurationMs,
        beganAs: undefined,
        waitUntilQuiet,
        wasAlone: () => run.beganAs === begun,
      }
      isolated.set(run, run)
      return run
    },
    /** Must be called when an isolated attempt has left its slot. */
    leave: (run: IsolatedRun, nowMs: number): void => {
      if (isolated.delete(run)) lastEndedAtMs = nowMs
    },
    /** Milliseconds for which nothing may be claimed because a job is isolated; 0 if no job is. */
    reservedMs: (nowMs: number): number => longest(0, (run) => run.exclusiveUntilMs - nowMs),
    /** Whether a job that needs isolation may be claimed: one at a time, with other claims in between. */
    isFree: Effect.map(
      monotonicMs,
      (nowMs) => isolated.size === 0 && nowMs >= lastEndedAtMs + shareOfRest * leaseDurationMs,
    ),
    /**
     * Milliseconds for which a job that cannot be isolated now is deferred. While another job is isolated, the delay equals the
     * time since that job's claim: each return costs a claim, and a long attempt must not cost many.
     */
    delayMs: Effect.map(monotonicMs, (nowMs) =>
      Math.ceil(longest(shareOfDelay * leaseDurationMs, ({ claimedAtMs }) => nowMs - claimedAtMs)),
    ),
  }
}

/** Returns what tells the guarded providers of an attempt. */
const guardedBy = (guard: ProviderGuard["Service"], providers: Providers["Service"], kinds: ReadonlyArray<JobKind>) => {
  const guardedIn = (mode: JobMode) =>
    new Map(kinds.map((kind) => [kind.name, guard.guardedIn(mode, servedBy(providers[mode], kind) ?? [])]))
  const ofMode = { live: guardedIn("live"), sandbox: guardedIn("sandbox") }
  return ({ claim: { job }, kind }: Attempt) => ofMode[job.mode].get(kind.name) ?? []
}

/** Makes the slots of a worker. `onEnd` is called whenever an attempt has left its slot. */
export const makeSlots = Effect.fnUntraced(function* (onEnd: (attempt: Attempt) => void) {
  const { concurrency, leaseDurationMs, limits } = yield* EngineConfig
  const wakeUp = yield* WakeUp
  const guard = yield* ProviderGuard
  const rates = yield* Rates
  const providers = yield* Providers
  const kinds = yield* installedKinds
  const installationLimits = limitsWith(limits, kinds)
  const providersOf = guardedBy(guard, providers, kinds)
  const room = Room.empty(concurrency, limits.perProject)
  const watch = new LeaseWatch(yield* Clock.Clock, leaseDurationMs)
  const isolation = makeIsolation(leaseDurationMs)
  const batches = new Batches(yield* Effect.context(), watch, concurrency)
  const attempts = new Bag<Attempt>()
  const lapsed = new Set<ClaimRef>()
  const withheld = new Map<string, string>()
  let isLimited = isLimiting(installationLimits)
  let left = 0
  let nextFreed: Deferred.Deferred<void> | undefined
  yield* onCanceled(attempts)

  const rateOf = ({ claim: { job } }: Attempt) => rates.ofKind(job.kind, job.mode)

  return {
    /** The rate at which attempts like this may start; `undefined` if their kind has none. */
    rateOf,
    /** The running attempts. */
    attempts,
    /** Ends leases whose time is up. Must run while there are attempts. */
    watch,
    isolation,
    batches,
    /** Returns the limits of the whole installation, given those that projects have of their own now. */
    limitsNow: (projects: Board["projectConcurrency"]): ConcurrencyLimits => {
      const limitsNow = Object.keys(projects).length === 0 ? installationLimits : { ...installationLimits, projects }
      isLimited = isLimiting(limitsNow)
      return limitsNow
    },
    room: () => room.now(),
    /** Returns which jobs are in the slots now. */
    occupied: () => room.copy(),
    /**
     * Claims whose end could not be written, most likely because the store was unavailable for longer than their leases. They
     * are released before the next claim; otherwise, the store would count this worker as lost.
     */
    lapsed,
    /** The prerequisites that attempts of this worker have parked their jobs on. */
    awaited: makeAwaitedJobs(),
    /**
     * Kinds whose last attempt found the blob store unavailable, each with a key to try it with. They are not claimed
     * until it is available again, because every claim would pay for a result that cannot be stored. Kinds that write no files
     * continue.
     */
    withheld,
    /** Number of attempts that have left their slots. */
    left: () => left,
    /** Completes when the next job leaves its slot, counted from this call. */
    nextFreed: (): Effect.Effect<void> => Deferred.await((nextFreed ??= Deferred.makeUnsafe<void>())),
    /** Whether the end of one job may let another start, in any process. */
    isLimited: () => isLimited,
    /** Notifies other workers of a free place. If jobs are limited, the end of one lets another start, in any process. */
    announceRoom: Effect.suspend(() => (isLimited ? wakeUp.notify : Effect.void)),
    take: (attempt: Attempt): void => {
      attempts.add(attempt)
      watch.add(attempt.lease)
      room.take(attempt.claim.job)
      guard.countJobs(providersOf(attempt), 1, attempt)
      rateOf(attempt)?.expect(attempt)
    },
    /** Records how much of an attempt's end the store has. */
    settle: ({ lease }: Attempt, settled: Settled): void => {
      // A job whose process was frozen past the lease stays claimed: the next claim, here or elsewhere, counts a lost worker.
      if (settled === "lapsed" && !lease.isLast) lapsed.add({ jobId: lease.jobId, token: lease.token })
    },
    /** Stops claiming the kind of an attempt that found the blob store unavailable. */
    withhold: ({ kind, lease }: Attempt): void => {
      // Only this attempt uses keys with its token.
      withheld.set(kind.name, jobBlobKey(lease.jobId, lease.token, "probe"))
    },
    /** Frees the slot of an attempt that has ended. Calling it again has no effect. */
    free: (attempt: Attempt): void => {
      if (!attempts.delete(attempt)) return
      left += 1
      watch.delete(attempt.lease)
      room.free(attempt.claim.job)
      guard.countJobs(providersOf(attempt), -1, attempt)
      rateOf(attempt)?.forget(attempt)
      if (attempt.isolated !== undefined) isolation.leave(attempt.isolated, watch.now())
      const freed = nextFreed
      nextFreed = undefined
      if (freed !== undefined) Deferred.doneUnsafe(freed, Effect.void)
      onEnd(attempt)
      attempt.end()
    },
  }
})

/** Ends the attempts of jobs that this process cancels. */
const onCanceled = (attempts: Bag<Attempt>) =>
  Effect.acquireRelease(
    Effect.map(JobEvents, (events) =>
      events.listenTo("canceled", (event) => {
        for (const { lease } of attempts) if ("jobId" in event && lease.jobId === event.jobId) lease.lose()
      }),
    ),
    (stopListening) => Effect.sync(stopListening),
  )

/** The jobs that a worker holds. */
export type Slots = Effect.Success<ReturnType<typeof makeSlots>>
