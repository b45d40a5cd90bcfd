import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { WorkerRoom } from "../../domain/JobsInProgress.ts"
import type { Claim } from "../../ports/index.ts"
import type { Attempt } from "../attempt/Attempt.ts"
import { claimInto } from "./claimInto.ts"
import type { makeIdling } from "./Idling.ts"
import type { Slots } from "./Slots.ts"
import { attemptStarter } from "../attempt/startAttempts.ts"

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
