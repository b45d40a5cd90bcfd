import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { monotonicMs } from "@kiln/core/effect"

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
  const measured = Effect.gen(function* () {
    const startedAt = yield* monotonicMs
    const value = yield* effect
    const now = yield* monotonicMs
    known = { value, goodUntil: now + Math.max(forMs, (now - startedAt) * restFactor) }
    return value
  })
  return Effect.contextWith((context: Context.Context<R>) =>
    Effect.flatMap(monotonicMs, (now) => {
      if (known !== undefined && now < known.goodUntil) return Effect.succeed(known.value)
      running ??= Effect.runPromiseExitWith(context)(measured).finally(() => (running = undefined))
      const waitFor = running
      return Effect.flatten(Effect.promise(() => waitFor) as Effect.Effect<Effect.Effect<A, E>>)
    }),
  )
}
