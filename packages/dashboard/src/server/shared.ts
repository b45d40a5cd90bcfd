import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

/** Milliseconds for which a result is good at least. */
const shortestMs = 1_000

/** A result is good for so many times the time that it took, so that reading it costs at most 2 % of a core. */
const restFactor = 50

/**
 * Shares the results of an effect among all callers: at most one run is in progress, and a result is good for `forMs` milliseconds, a
 * second by default, or longer if it was slow. Failures are not kept.
 */
export const shared = <A, E, R>(effect: Effect.Effect<A, E, R>, forMs = shortestMs): Effect.Effect<A, E, R> => {
  let known: { readonly value: A; readonly goodUntil: number } | undefined
  let running: Promise<Exit.Exit<A, E>> | undefined
  const start = (run: (effect: Effect.Effect<A, E, R>) => Promise<Exit.Exit<A, E>>): Promise<Exit.Exit<A, E>> => {
    const startedAt = performance.now()
    return run(effect)
      .then((exit) => {
        const now = performance.now()
        if (Exit.isSuccess(exit))
          known = { value: exit.value, goodUntil: now + Math.max(forMs, (now - startedAt) * restFactor) }
        return exit
      })
      .finally(() => (running = undefined))
  }
  return Effect.contextWith((context) =>
    Effect.suspend(() => {
      if (known !== undefined && performance.now() < known.goodUntil) return Effect.succeed(known.value)
      running ??= start(Effect.runPromiseExitWith(context))
      const waitFor = running
      return Effect.flatten(Effect.promise(() => waitFor) as Effect.Effect<Effect.Effect<A, E>>)
    }),
  )
}
