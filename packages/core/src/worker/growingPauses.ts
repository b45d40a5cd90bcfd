import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

/** The share of a pause that is random, so that processes started together drift apart. */
const jitter = 0.1

/** Pauses between polls: each is twice as long as the one before, until a poll finds something. */
export const growingPauses = (shortestMs: number) => {
  let nextMs = shortestMs
  return {
    /** Starts again with the shortest pause. */
    reset: () => {
      nextMs = shortestMs
    },
    /** Returns the next pause in milliseconds, with jitter: at most `longestMs`, or the shortest pause if that is longer. */
    next: (longestMs: number): Effect.Effect<number> =>
      Effect.map(Random.next, (chance) => {
        const pauseMs = Math.min(nextMs, Math.max(shortestMs, longestMs))
        nextMs = 2 * pauseMs
        return pauseMs * (1 - jitter * chance)
      }),
  }
}

/** Returns a random first pause of at most `withinMs`, so that processes started together do not run in step. */
export const firstPause = (withinMs: number): Effect.Effect<number> =>
  Effect.map(Random.next, (chance) => withinMs * chance)
