import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { JobStore, WakeUp } from "../ports/index.ts"
import { growingPauses } from "./growingPauses.ts"
import { monotonicMs } from "../domain/monotonicMs.ts"

/**
 * How a worker waits for work. After each look that finds none it waits longer, from `pollIntervalMs` to
 * `idlePollIntervalMs`, where wake-ups reach everybody: then looking is only the backstop for a hint that got lost. A
 * wake-up ends the wait, and begins again with short pauses, as does a job that was claimed or an attempt that ended.
 *
 * However long it waits, a job whose worker is lost is taken over when its lease ends:
 * - A look that finds a job in somebody's hands learns when its lease ends (`nextInMs`), and the wait ends just then. If
 *   the lease was extended meanwhile, that look learns the new end. So who has seen a job held once never misses the end
 *   of its lease, whenever its worker is lost.
 * - A job that was claimed after the last look, by a worker whose hint got lost, is not known. But its lease lasts longer
 *   than this wait, because no wait is longer than a lease: the next look finds it while it is still held.
 * So recovery takes the lease and the time of a look, and an idle worker asks once per lease. All processes of an
 * installation are taken to have the same lease; one with a shorter lease may wait for the longer one of who takes over.
 */
export const makeIdling = Effect.gen(function* () {
  const { idlePollIntervalMs, leaseDurationMs, pollIntervalMs } = yield* EngineConfig
  const { capabilities } = yield* JobStore
  const wakeUp = yield* WakeUp
  const pauses = growingPauses(pollIntervalMs)
  const ended = yield* Latch.make(false)
  let nextClaimBy: number | undefined
  let isAsking = false

  /** Where jobs may come that nobody here is told of, they are looked for all the time. */
  const longestMs = Effect.map(wakeUp.reach, (reach) =>
    reach === "installation" || !capabilities.multiProcess
      ? Math.min(idlePollIntervalMs, leaseDurationMs)
      : pollIntervalMs,
  )
  const wakes = Effect.map(wakeUp.wait, pauses.reset)
  // What an attempt leaves behind may be claimable soon: it may have been deferred, or its lease have lapsed.
  const looksSoon = Effect.andThen(
    ended.await,
    Effect.suspend(() => {
      pauses.reset()
      return Effect.flatMap(pauses.next(pollIntervalMs), Effect.sleep)
    }),
  )
  const pause = (ms: number) => Effect.raceAllFirst([wakes, looksSoon, Effect.sleep(ms)])

  return {
    /** Says that the store is being asked for work. */
    asks: Effect.gen(function* () {
      // An attempt that ends from here on may change what the answer does not tell of any more.
      yield* ended.close
      if (!isAsking && nextClaimBy !== undefined) nextClaimBy = yield* monotonicMs
      isAsking = true
    }),
    /** Says that it has answered. */
    wasAnswered: Effect.gen(function* () {
      nextClaimBy = yield* monotonicMs
      isAsking = false
    }),
    attemptEnded: (): void => void ended.openUnsafe(),
    /** Waits by the worker's own choice, for a lease at most: for how long is known only once the work has begun that it is for. */
    holdBack: Effect.fnUntraced(function* (atMostMs: number) {
      const ms = Math.min(atMostMs, leaseDurationMs)
      nextClaimBy = (yield* monotonicMs) + ms
      yield* Effect.sleep(ms)
    }),
    /** There was something to do. */
    reset: pauses.reset,
    /** Waits, when there was nothing: until something may become claimable, in `nextInMs`, or it is time to look. */
    rest: Effect.fnUntraced(function* (nextInMs: number | undefined) {
      const pauseMs = yield* pauses.next(yield* longestMs)
      // Sleeps exactly until the known time: waking slightly early would only make it sleep again.
      const ms = Math.max(1, Math.min(nextInMs ?? pauseMs, pauseMs))
      nextClaimBy = (yield* monotonicMs) + ms
      yield* pause(ms)
    }),
    /** Waits, when the store did not answer. */
    restAfterFailure: Effect.suspend(() => {
      pauses.reset()
      return Effect.flatMap(pauses.next(pollIntervalMs), pause)
    }),
    nextClaimBy: () => nextClaimBy,
  }
})
