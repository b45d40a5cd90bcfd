import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

/** How much of a pause chance may take off: enough for processes that were started together to drift apart. */
const jitter = 0.1

/** Pauses of somebody who looks for work and finds none: each twice as long as the one before, until there is something. */
export const growingPauses = (shortestMs: number) => {
  let nextMs = shortestMs
  return {
    /** There was something: begins again with the shortest. */
    reset: () => {
      nextMs = shortestMs
    },
    /** The next one in milliseconds, a little jittered: never above `longestMs`, unless the shortest is. */
    next: (longestMs: number): Effect.Effect<number> =>
      Effect.map(Random.next, (chance) => {
        const pauseMs = Math.min(nextMs, Math.max(shortestMs, longestMs))
        nextMs = 2 * pauseMs
        return pauseMs * (1 - jitter * chance)
      }),
  }
}

/** A part of `withinMs`: how long to wait at first, so that what is started together does not march together. */
export const firstPause = (withinMs: number): Effect.Effect<number> =>
  Effect.map(Random.next, (chance) => withinMs * chance)
