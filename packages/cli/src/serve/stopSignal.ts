import { constants } from "node:os"
import { isatty } from "node:tty"
import * as Effect from "effect/Effect"

/** A Ctrl-C reaches a server twice if a package manager started it and forwards it; two signals within this time count as one. */
const sameKeyPressMs = 200
/** Additional time after the drain for closing connections and the store. */
const stopGraceMs = 25_000
/** Maximum delay of a timer in Node; a timer with a longer delay fires immediately. */
const longestTimerMs = 2 ** 31 - 1

/** True if the process has a terminal. With `nohup` and supervisors, none of the three descriptors is one. */
const hasTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor))

/**
 * Completes on the first SIGINT or SIGTERM, for a graceful shutdown. A second one exits immediately with 128 + its number:
 * the leases of running jobs expire, and other workers take over.
 *
 * SIGHUP means that the terminal is gone, and stops a server with a terminal in the same way, because Ctrl-C is no longer
 * possible. A server without a terminal ignores it: there it asks daemons to reload their settings, which kiln does not
 * support, and an exit with code 0 would leave the service down under a supervisor that restarts only failures. It never
 * counts as a second signal, because kernel, shell and supervisor may each send one.
 */
export const stopSignal: Effect.Effect<void> = Effect.gen(function* () {
  const log = Effect.runForkWith(yield* Effect.context())
  const taken = yield* Effect.callback<NodeJS.Signals>((resume) => {
    let first: { readonly signal: NodeJS.Signals; readonly atMs: number } | undefined
    const stop = (signal: NodeJS.Signals) => {
      first = { signal, atMs: performance.now() }
      resume(Effect.succeed(signal))
    }
    const onSignal = (signal: NodeJS.Signals) => {
      if (first === undefined) return stop(signal)
      const isEcho = signal === "SIGINT" && first.signal === "SIGINT" && performance.now() - first.atMs < sameKeyPressMs
      if (!isEcho) process.exit(128 + constants.signals[signal])
    }
    const onHangUp = (signal: NodeJS.Signals) => {
      if (hasTerminal && first === undefined) return stop(signal)
      if (!hasTerminal) log(Effect.logInfo("SIGHUP: ignored, settings are read only at startup; SIGTERM stops kiln"))
    }
    // Never removed, because the second signal arrives after this effect has completed.
    process.on("SIGINT", onSignal).on("SIGTERM", onSignal).on("SIGHUP", onHangUp)
  })
  yield* Effect.logInfo(
    `${taken}: shutting down; send ${taken === "SIGHUP" ? "SIGTERM" : `${taken} again`} to exit immediately`,
  )
})

/** Exits with 1 if shutdown takes longer than the drain plus 25 s. */
export const limitStop = (drainMs: number): Effect.Effect<void> =>
  Effect.sync(() => {
    setTimeout(
      () => {
        process.stderr.write("kiln: shutdown timed out\n")
        process.exit(1)
      },
      Math.min(drainMs + stopGraceMs, longestTimerMs),
    ).unref()
  })
