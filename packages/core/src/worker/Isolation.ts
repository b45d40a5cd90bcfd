import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Job } from "../domain/index.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"

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

/** An attempt that starts while no other one runs. */
export interface IsolatedRun {
  /** When the job was claimed, in milliseconds of the monotonic clock. */
  readonly claimedAtMs: number
  /** Waits until no other attempt runs, but no longer than a lease. */
  readonly waitUntilQuiet: Effect.Effect<void>
  /** Whether no other attempt has run beside this one since it began. */
  readonly wasAlone: () => boolean
}

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
