import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Job } from "../domain/index.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"

/**
 * Whether the next lost worker fails the job. A worker that dies or stands still takes all its attempts along, and nothing says
 * which of them was the reason. Two losses may be the fault of neighbors, so the last attempt begins in isolation.
 */
export const needsIsolation = ({ lostWorkers }: Pick<Job, "lostWorkers">, maxLostWorkers: number): boolean =>
  lostWorkers > 0 && lostWorkers + 1 >= maxLostWorkers

/** Leases for which a job waits at most until the attempts beside it end. It waits under its own lease. */
const leasesOfWaiting = 1
/** Leases from its start during which the worker starts nothing beside it: a job that blocks or kills again shows it by then. */
const leasesAlone = 2

/** Of a lease, the time after an isolated job during which others are claimed before the next one is. */
const shareOfRest = 1 / 6
/** Of a lease, the shortest delay of a job that cannot be isolated now. */
const shareOfDelay = 1 / 3

/** An attempt that begins while no other one runs. */
export interface IsolatedRun {
  /** When the job was claimed, in milliseconds of the monotonic clock. */
  readonly claimedAtMs: number
  /** Waits until no other attempt runs, but no longer than a lease. */
  readonly waitUntilQuiet: Effect.Effect<void>
  /** Whether no other attempt has run beside this one since it began. */
  readonly wasAlone: () => boolean
}

interface Tracked extends IsolatedRun {
  /** Until when the worker claims nothing beside it, in milliseconds of the monotonic clock. Its start may bring this forward. */
  exclusiveUntilMs: number
  /** How many attempts had begun with it, if no other one ran then. */
  beganAs: number | undefined
}

/** Coordinates the attempts of one process: side by side, or one of them isolated for a while. */
export const makeIsolation = (leaseDurationMs: number) => {
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
    /** Says that the work of an attempt begins, of an isolated one or another. */
    begin: (run: IsolatedRun | undefined, nowMs: number): void => {
      const tracked = run && isolated.get(run)
      begun += 1
      if (tracked !== undefined) {
        tracked.exclusiveUntilMs = Math.min(tracked.exclusiveUntilMs, nowMs + leasesAlone * leaseDurationMs)
        tracked.beganAs = running === 0 ? begun : undefined
      }
      running += 1
    },
    /** Says that the work of an attempt has ended. */
    end: (): void => {
      running -= 1
      if (running > 0 || quiet === undefined) return
      Deferred.doneUnsafe(quiet, Effect.void)
      quiet = undefined
    },
    /**
     * Isolates an attempt: it waits up to a lease until no other attempt runs, and then has the worker to itself for two leases,
     * or until it ends. So other jobs wait for it for three leases at most, however long it runs.
     *
     * The price: a job that kills or blocks its worker later than that, or beside an attempt that ran on, takes its neighbors
     * along. Each of them loses one of its workers. An innocent job that needs isolation may then fail with it, but only as the
     * neighbor of an attempt that had not lost as many: a worker never runs two isolated jobs at once.
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
    /** Says that an isolated attempt has left its slot. */
    leave: (run: IsolatedRun, nowMs: number): void => {
      if (isolated.delete(run)) lastEndedAtMs = nowMs
    },
    /** Milliseconds for which nothing may be claimed because a job is isolated; 0 if none is. */
    reservedMs: (nowMs: number): number => longest(0, (run) => run.exclusiveUntilMs - nowMs),
    /** Whether a job that needs isolation may be claimed: one at a time, with other claims in between. */
    isFree: Effect.map(
      monotonicMs,
      (nowMs) => isolated.size === 0 && nowMs >= lastEndedAtMs + shareOfRest * leaseDurationMs,
    ),
    /**
     * Milliseconds for which a job that cannot be isolated now is deferred. While another job is isolated, that is as long again
     * as that one has been claimed: each return costs a claim, and a long attempt must not cost many.
     */
    delayMs: Effect.map(monotonicMs, (nowMs) =>
      Math.ceil(longest(shareOfDelay * leaseDurationMs, ({ claimedAtMs }) => nowMs - claimedAtMs)),
    ),
  }
}
