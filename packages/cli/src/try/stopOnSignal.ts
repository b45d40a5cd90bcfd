import * as Effect from "effect/Effect"

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const

/**
 * Interrupts an effect when a signal asks the process to end, so that it cleans up. Then the process ends by that signal, as it
 * would have without this.
 */
export const stopOnSignal = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  onStop: Effect.Effect<void> = Effect.void,
): Effect.Effect<A, E, R> =>
  Effect.raceFirst(
    Effect.map(effect, (value) => ({ value })),
    Effect.callback<{ readonly signal: NodeJS.Signals }>((resume) => {
      const stop = (signal: NodeJS.Signals) => resume(Effect.succeed({ signal }))
      for (const signal of signals) process.on(signal, stop)
      return Effect.sync(() => {
        for (const signal of signals) process.off(signal, stop)
      })
    }),
  ).pipe(
    Effect.flatMap((ended) => {
      if ("value" in ended) return Effect.succeed(ended.value)
      return onStop.pipe(
        Effect.andThen(Effect.sync(() => process.kill(process.pid, ended.signal))),
        Effect.andThen(Effect.never),
      )
    }),
  )
