import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { EngineConfig } from "../../engine/EngineConfig.ts"
import { JobStore, WakeUp } from "../../ports/index.ts"
import { growingPauses } from "../growingPauses.ts"
import { monotonicMs } from "../../domain/monotonicMs.ts"
import type { Attempt } from "../attempt/Attempt.ts"
import { Rates } from "./Rates.ts"

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
