import * as Effect from "effect/Effect"

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const

/** Completes with the next of the signals. Afterwards, they have their usual effect again. */
const nextSignal = Effect.suspend(() => {
  let stop: (signal: NodeJS.Signals) => void = () => undefined
  return Effect.callback<NodeJS.Signals>((resume) => {
    stop = (signal) => resume(Effect.succeed(signal))
    for (const signal of signals) process.on(signal, stop)
  }).pipe(
    Effect.ensuring(
      Effect.sync(() => {
        for (const signal of signals) process.off(signal, stop)
      }),
    ),
  )
})

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
    Effect.map(nextSignal, (signal) => ({ signal })),
  ).pipe(
    Effect.flatMap((ended) => {
      if ("value" in ended) return Effect.succeed(ended.value)
      return onStop.pipe(
        Effect.andThen(Effect.sync(() => process.kill(process.pid, ended.signal))),
        Effect.andThen(Effect.never),
      )
    }),
  )
