import { constants } from "node:os"
import { isatty } from "node:tty"
import { Effect } from "effect"

/** A Ctrl-C reaches a server twice where a package manager started it and passes it on: these two are one. */
const sameKeyPressMs = 200
/** Beyond the drain: what closing connections and the store may take. */
const stopGraceMs = 25_000
/** Of Node: a timer with a longer delay fires at once. */
const longestTimerMs = 2 ** 31 - 1

/** Whether somebody started this process at a terminal. `nohup` and supervisors leave none of the three. */
const hasTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor))

/**
 * Completes at the first SIGINT or SIGTERM, for the server to stop in order. A second one exits at
 * once, with 128 + its number: the leases of the jobs in hand run out, and others take over.
 *
 * SIGHUP says that the terminal is gone, and stops a server that has one in the same way: nobody could press Ctrl-C any more.
 * A server without a terminal ignores it. There it asks daemons to read their settings again, of which kiln has none that
 * may change, and a stop with exit code 0 would leave the service down under a supervisor that restarts failures only. It
 * never counts as a second signal, for kernel, shell and supervisor may each send one.
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
      if (!hasTerminal) log(Effect.logInfo("SIGHUP: ignored, settings are read at the start only; SIGTERM stops kiln"))
    }
    // Never taken off again: the second signal comes after this effect has completed.
    process.on("SIGINT", onSignal).on("SIGTERM", onSignal).on("SIGHUP", onHangUp)
  })
  yield* Effect.logInfo(
    `${taken}: shutting down; send ${taken === "SIGHUP" ? "SIGTERM" : `${taken} again`} to exit immediately`,
  )
})

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
