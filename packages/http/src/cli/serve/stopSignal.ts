import { constants } from "node:os"
import { Effect } from "effect"

/** A Ctrl-C reaches a server twice where a package manager started it and passes it on: these two are one. */
const sameKeyPressMs = 200
/** Beyond the drain: what closing connections and the store may take. */
const stopGraceMs = 25_000
/** Of Node: a timer with a longer delay fires at once. */
const longestTimerMs = 2 ** 31 - 1

/**
 * Completes at the first SIGINT or SIGTERM, for the server to stop in order. A second one exits at
 * once, with 128 + its number: the leases of the jobs in hand run out, and others take over.
 */
export const stopSignal: Effect.Effect<void> = Effect.callback<NodeJS.Signals>((resume) => {
  let first: { readonly signal: NodeJS.Signals; readonly atMs: number } | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    const atMs = performance.now()
    if (first === undefined) {
      first = { signal, atMs }
      resume(Effect.succeed(signal))
      return
    }
    const isEcho = signal === "SIGINT" && first.signal === "SIGINT" && atMs - first.atMs < sameKeyPressMs
    if (!isEcho) process.exit(128 + constants.signals[signal])
  }
  // Never taken off again: the second signal comes after this effect has completed.
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal)
}).pipe(Effect.flatMap((signal) => Effect.logInfo(`${signal}: stopping; a second one stops at once`)))

/** Ends the process, with 1, should stopping take longer than the drain and 25 s more. */
export const limitStop = (drainMs: number): Effect.Effect<void> =>
  Effect.sync(() => {
    setTimeout(
      () => {
        process.stderr.write("kiln: did not stop in time\n")
        process.exit(1)
      },
      Math.min(drainMs + stopGraceMs, longestTimerMs),
    ).unref()
  })
