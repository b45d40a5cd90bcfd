import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import type { JobMode } from "../../domain/Access.ts"
import type { WorkerRoom } from "../../domain/JobsInProgress.ts"
import { monotonicMs } from "../../domain/monotonicMs.ts"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import type { EngineSettings } from "../../engine/EngineSettings.ts"
import { type Claim, JobStore, WakeUp } from "../../ports/index.ts"
import { ProviderGuard } from "../../providers/ProviderGuard.ts"
import type { Attempt } from "../attempt/Attempt.ts"
import { type Bag, checkClaims, heartbeat } from "../attempt/leases.ts"
import { allEnded, attemptStarter, stopAll } from "../attempt/RunAttempt.ts"
import { expireWhileHolding } from "../maintenance/Sweeper.ts"
import { growingPauses, makeOutageLog } from "../repeating.ts"
import { claimInto, watchWithheld } from "./claimInto.ts"
import { Rates } from "./conditions.ts"
import { makeJointClaims } from "./JointClaims.ts"
import { isTight, roomAfter, type Slots } from "./Slots.ts"

/** Waits until there is room in a rate that has held jobs back. Running jobs change when that is. */
const untilRoomIn = (rates: Rates["Service"]) =>
  Effect.gen(function* () {
    for (;;) {
      yield* rates.change.close
      const ms = yield* rates.nextInMs
      if (ms !== undefined && ms <= 0) return
      yield* Effect.raceFirst(rates.change.await, ms === undefined ? Effect.never : Effect.sleep(ms))
    }
  })

/** The jobs that were deferred since the last claim, by when the first of them is due. */
class DeferredJobs {
  readonly #nowMs: () => number
  readonly #isSooner = Latch.makeUnsafe(false)
  /** In milliseconds of the monotonic clock. */
  #dueAt = Infinity

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  forget(): void {
    this.#dueAt = Infinity
  }

  add(dueInMs: number): void {
    const dueAt = this.#nowMs() + dueInMs
    if (dueAt >= this.#dueAt) return
    this.#dueAt = dueAt
    this.#isSooner.openUnsafe()
  }

  /** Waits until that time, but no longer than until a job is due, also one that is deferred meanwhile. */
  waitUntil(latest: number): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#isSooner.closeUnsafe()
      const due = Effect.sleep(Math.max(1, Math.min(latest, this.#dueAt) - this.#nowMs()))
      return Effect.raceFirst(
        due,
        Effect.flatMap(this.#isSooner.await, () => this.waitUntil(latest)),
      )
    })
  }
}

/**
 * Decides how long a worker waits for work. After each poll that finds none, it waits longer: from `pollIntervalMs` up to
 * `idlePollIntervalMs` if wake-ups reach all processes, because polling then only makes up for lost hints. A wake-up, a claimed
 * job or the end of an attempt resets the pauses to the shortest.
 *
 * However long it waits, the job of a lost worker is taken over when its lease ends:
 * - A poll that finds a job claimed by another worker learns when its lease ends (`nextInMs`), and the worker waits no longer
 *   than that. If the lease was extended meanwhile, the next poll learns the new end.
 * - A job that was claimed after the last poll, with a lost hint, is unknown to this worker. But no wait is longer than a lease,
 *   so the next poll finds the job while it is still claimed.
 * Recovery therefore takes the lease plus the time of a poll, and an idle worker polls once per lease. All processes of an
 * installation are assumed to use the same lease duration; jobs with a shorter one may have to wait for the longer one of the
 * worker that takes over.
 */
export const makeIdling = Effect.gen(function* () {
  const { idlePollIntervalMs, leaseDurationMs, pollIntervalMs } = yield* EngineConfig
  const { capabilities } = yield* JobStore
  const wakeUp = yield* WakeUp
  const rateHasRoom = untilRoomIn(yield* Rates)
  const clock = yield* Clock.Clock
  const nowMs = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const pauses = growingPauses(pollIntervalMs)
  const ended = yield* Latch.make(false)
  let nextClaimBy: number | undefined
  let isAsking = false

  /** If wake-ups do not reach all processes, the worker polls at the short interval. */
  const longestMs = Effect.map(wakeUp.reach, (reach) =>
    reach === "installation" || !capabilities.multiProcess
      ? Math.min(idlePollIntervalMs, leaseDurationMs)
      : pollIntervalMs,
  )
  const wakes = Effect.map(wakeUp.wait, pauses.reset)
  const deferred = new DeferredJobs(nowMs)
  // A job whose attempt has ended may be claimable soon: its lease may have ended, or it was deferred, for a known time.
  const looksSoon = Effect.andThen(
    ended.await,
    Effect.suspend(() => {
      pauses.reset()
      return Effect.flatMap(pauses.next(pollIntervalMs), (ms) => deferred.waitUntil(nowMs() + ms))
    }),
  )
  const pause = (ms: number) => Effect.raceAllFirst([wakes, looksSoon, Effect.sleep(ms)])

  return {
    /** Must be called before a claim. */
    asks: Effect.gen(function* () {
      // The answer does not reflect attempts that end from here on.
      yield* ended.close
      // The store knows when those are due.
      deferred.forget()
      if (!isAsking && nextClaimBy !== undefined) nextClaimBy = yield* monotonicMs
      isAsking = true
    }),
    /** Must be called before waiting for a joint claim: until now, all slots may have been full for long, and no claim was due. */
    awaitsJoint: Effect.gen(function* () {
      if (nextClaimBy !== undefined) nextClaimBy = Math.max(nextClaimBy, yield* monotonicMs)
    }),
    /** Must be called when the claim has returned. */
    wasAnswered: Effect.gen(function* () {
      nextClaimBy = yield* monotonicMs
      isAsking = false
    }),
    attemptEnded: ({ dueInMs }: Pick<Attempt, "dueInMs">): void => {
      if (dueInMs !== undefined) deferred.add(dueInMs)
      ended.openUnsafe()
    },
    /**
     * Waits because an isolated job reserves the worker, but no longer than a lease: that job's start may shorten the
     * reservation.
     */
    holdBack: Effect.fnUntraced(function* (atMostMs: number) {
      const ms = Math.min(atMostMs, leaseDurationMs)
      nextClaimBy = (yield* monotonicMs) + ms
      yield* Effect.sleep(ms)
    }),
    /** Must be called when a claim found jobs. */
    reset: pauses.reset,
    /** Waits after a claim that found no jobs: until a job may become claimable, in `nextInMs`, or the next poll is due. */
    rest: Effect.fnUntraced(function* (nextInMs: number | undefined) {
      const pauseMs = yield* pauses.next(yield* longestMs)
      // Sleeps exactly until the known time: waking slightly early would only make it sleep again.
      const ms = Math.max(1, Math.min(nextInMs ?? pauseMs, pauseMs))
      nextClaimBy = (yield* monotonicMs) + ms
      yield* Effect.raceFirst(pause(ms), rateHasRoom)
    }),
    /** Waits after a claim that failed. */
    restAfterFailure: Effect.suspend(() => {
      pauses.reset()
      return Effect.flatMap(pauses.next(pollIntervalMs), pause)
    }),
    nextClaimBy: () => nextClaimBy,
  }
})

type Idling = Effect.Success<typeof makeIdling>

/** Claims jobs for a worker and begins their attempts. */
export const makeClaiming = Effect.fnUntraced(function* (slots: Slots, idling: Idling) {
  const starter = yield* attemptStarter(slots)
  let lastClaimAt: number | undefined
  /** Attempts in slots that are not begun yet. */
  let taken: ReadonlyArray<Attempt> = []

  const begin = Effect.suspend(() => {
    const attempts = taken
    taken = []
    return starter.begin(attempts)
  })

  const take = Effect.fnUntraced(function* (claims: ReadonlyArray<Claim>, askedAtMs: number) {
    lastClaimAt = yield* Clock.currentTimeMillis
    const attempts = starter.take(claims, askedAtMs)
    taken = [...taken, ...attempts]
    return attempts
  })

  return {
    /**
     * Claims jobs and takes slots for them. Uninterruptible, because a job that was claimed but not started would count a lost worker.
     * The attempts that wait for `begin` are begun meanwhile: the store works on this claim while they run.
     */
    claim: Effect.fnUntraced(function* (room: number | WorkerRoom, maxJobs: number = Infinity) {
      yield* idling.asks
      const claims = claimInto(slots, room, maxJobs)
      // Joined in any case. Not a child: fibers keep their children in a set, which keeps answers of ended claims (see `Bag`).
      const asking = yield* Effect.forkDetach(claims, { startImmediately: true, uninterruptible: "inherit" })
      if (taken.length > 0) {
        // The claim is sent in this turn.
        yield* Effect.yieldNow
        yield* begin
      }
      const claimed = yield* Fiber.join(asking)
      yield* idling.wasAnswered
      const attempts = yield* take(claimed.claims, claimed.askedAtMs)
      return { attempts, nextInMs: claimed.nextInMs }
    }, Effect.uninterruptible),
    /** Begins the attempts of the last claim, unless another claim has. Each claim must be followed by one of the two. */
    begin,
    /** Takes slots for claimed jobs and begins their attempts. */
    start: (claims: ReadonlyArray<Claim>, askedAtMs: number) => {
      if (claims.length > 0) idling.reset()
      return Effect.andThen(take(claims, askedAtMs), begin)
    },
    /** Time of the store's last answer to a claim, in Unix milliseconds; `undefined` before the first. */
    lastClaimAt: () => lastClaimAt,
  }
})

/** The parts of a worker. */
interface Parts {
  readonly config: EngineSettings
  readonly slots: Slots
  readonly idling: Effect.Success<typeof makeIdling>
  readonly claiming: Effect.Success<ReturnType<typeof makeClaiming>>
  /** The modes in which it serves a kind. */
  readonly served: ReadonlyArray<JobMode>
}

/** Returns what a worker can do: one round, all that can run now, or all that comes. */
export const makeLoops = (parts: Parts) => ({
  tick: tick(parts),
  run: run(parts),
  runClaimable: (maxJobs: number, untilMs: number) => runClaimable(parts, maxJobs, untilMs),
})

const tick = ({ claiming, config, slots }: Parts) =>
  Effect.scoped(
    Effect.gen(function* () {
      // Started immediately, because an attempt may block the event loop first.
      yield* Effect.forkScoped(slots.watch.run, { startImmediately: true })
      yield* Effect.forkScoped(heartbeat(slots.watch.leases), { startImmediately: true })
      const { attempts } = yield* Effect.uninterruptible(
        Effect.tap(claiming.claim(config.concurrency), () => claiming.begin),
      )
      slots.batches.startAll()
      yield* Effect.onInterrupt(allEnded(attempts), () => stopAll(attempts))
      return attempts.length
    }),
  )

/** Watches over the attempts until the scope closes. Then, lets those that run finish for a while, and releases the rest. */
const attend = Effect.fnUntraced(function* ({ claiming, slots }: Parts, graceMs: Effect.Effect<number>) {
  const { leases } = slots.watch
  yield* Effect.forkScoped(slots.watch.run, { startImmediately: true })
  const beating = yield* Effect.forkScoped(heartbeat(leases), { startImmediately: true })
  yield* Effect.forkScoped(checkClaims(leases))
  yield* Effect.forkScoped(watchWithheld(slots))
  yield* Effect.forkScoped(expireWhileHolding(() => leases.size > 0))
  slots.batches.expectsMore = true
  yield* Effect.addFinalizer(() =>
    Effect.flatMap(
      Effect.andThen(claiming.begin, () => {
        slots.batches.expectsMore = false
        return graceMs
      }),
      (ms) => drain(slots.attempts, beating, ms),
    ),
  )
})

/** Looks at the slots before a claim. */
const look = ({ served, slots }: Parts) =>
  Effect.map(monotonicMs, (nowMs) => {
    const occupied = slots.occupied()
    const room = occupied.now()
    return {
      occupied,
      room,
      // Jobs that were committed together leave their slots together, so wait a turn: one claim then fills all of them.
      freed: Effect.andThen(slots.nextFreed(), Effect.yieldNow),
      isFull: served.every((mode) => room.free[mode] <= 0),
      reservedMs: slots.isolation.reservedMs(nowMs),
    }
  })

const run = (parts: Parts) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { claiming, config, idling, slots } = parts
      yield* attend(
        parts,
        Effect.sync(() => config.drainMs),
      )
      const outage = makeOutageLog("claiming jobs")
      const joint = yield* makeJointClaims(slots, claiming.start, idling.nextClaimBy)
      const guard = yield* ProviderGuard
      const claimAndStart = Effect.gen(function* () {
        // Jobs of a joint claim that is still being answered also take slots.
        while (joint.isPending) yield* Effect.andThen(idling.awaitsJoint, joint.settled)
        const answer = joint.takeAnswer()
        const { freed, isFull, occupied, reservedMs, room } = yield* look(parts)
        if (isFull || reservedMs > 0) yield* claiming.begin
        if (isFull) return yield* joint.whileFull(freed)
        if (reservedMs > 0) return yield* Effect.raceFirst(freed, idling.holdBack(reservedMs))
        const { attempts, nextInMs } = answer ?? (yield* claiming.claim(room))
        yield* outage.worked
        if (attempts.length > 0) idling.reset()
        // If the store has more claimable jobs, claim again immediately.
        if (attempts.length > 0 && nextInMs === 0) return
        yield* claiming.begin
        const rest = idling.rest(nextInMs)
        // `nextInMs` does not cover jobs that only wait for this worker's own slots and providers, as the store knew them: some may
        // have become free while it answered.
        const mayFree = isTight(roomAfter(occupied, attempts)) || isTight(slots.room()) || guard.isFull()
        yield* joint.whileResting(rest, mayFree ? freed : undefined)
      })
      return yield* Effect.forever(
        // The loop must survive every failure; otherwise, the worker would look healthy and do nothing.
        Effect.catchCause(claimAndStart, (cause) => Effect.andThen(outage.failed(cause), idling.restAfterFailure)),
      )
    }),
  )

const runClaimable = (parts: Parts, maxJobs: number, untilMs: number) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { claiming, config, idling, slots } = parts
      const leftMs = Effect.map(monotonicMs, (nowMs) => Math.max(0, Math.min(config.drainMs, untilMs - nowMs)))
      yield* attend(parts, leftMs)
      const outage = makeOutageLog("claiming jobs")
      let claimed = 0
      while (claimed < maxJobs) {
        const { freed, isFull, reservedMs, room } = yield* look(parts)
        // No job is submitted for a batch that waits: what can be claimed is.
        if (isFull) slots.batches.startAll()
        if (isFull) yield* freed
        else if (reservedMs > 0) yield* Effect.raceFirst(freed, idling.holdBack(reservedMs))
        else {
          const answer = yield* Effect.exit(claiming.claim(room, maxJobs - claimed))
          if (Exit.isSuccess(answer)) {
            const { attempts, nextInMs } = answer.value
            yield* Effect.andThen(outage.worked, claiming.begin)
            claimed += attempts.length
            if (attempts.length > 0) idling.reset()
            else if (slots.attempts.size === 0) return claimed
            // Other processes may submit jobs meanwhile.
            else {
              slots.batches.startAll()
              yield* Effect.raceFirst(freed, idling.rest(nextInMs))
            }
          } else if (slots.attempts.size === 0) return yield* Effect.failCause(answer.cause)
          // What runs goes on without the store, as long as its leases hold.
          else yield* Effect.andThen(outage.failed(answer.cause), Effect.raceFirst(freed, idling.restAfterFailure))
        }
      }
      slots.batches.expectsMore = false
      yield* allEnded(slots.attempts)
      return claimed
    }),
  )

/**
 * Lets running attempts finish for a while, and interrupts the rest. If a release fails, the job becomes claimable when its lease
 * ends, which nothing extends any more. Other workers are notified of released jobs; otherwise, they would find them only at
 * their next poll.
 */
const drain = Effect.fnUntraced(function* (attempts: Bag<Attempt>, beating: Fiber.Fiber<never>, drainMs: number) {
  yield* Effect.timeoutOption(Effect.interruptible(allEnded(attempts)), drainMs)
  yield* Fiber.interrupt(beating)
  const releases = attempts.size > 0
  yield* stopAll(attempts)
  if (releases) yield* Effect.flatMap(WakeUp, ({ notify }) => notify)
})
