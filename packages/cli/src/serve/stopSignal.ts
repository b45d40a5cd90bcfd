import { constants } from "node:os"
import { isatty } from "node:tty"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"

/** A Ctrl-C reaches a server twice if a package manager started it and forwards it; two signals within this time count as one. */
const sameKeyPressMs = 200
/** Additional time after the delay and the drain for closing connections and the store. */
const stopGraceMs = 25_000
/** Maximum delay of a timer in Node; a timer with a longer delay fires immediately. */
const longestTimerMs = 2 ** 31 - 1

/** True if the process has a terminal. With `nohup` and supervisors, none of the three descriptors is one. */
const hasTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor))

/** The signals that a running service receives. */
export interface StopSignals {
  /** Completes on the first SIGINT or SIGTERM, for a graceful shutdown. */
  readonly stopped: Effect.Effect<void>
  /** Completes on the next SIGHUP that asks for a reload. */
  readonly nextReload: Effect.Effect<void>
  /** Waits during a shutdown. The next SIGINT or SIGTERM ends the wait. Returns immediately if no signal began the shutdown. */
  readonly delay: (ms: number) => Effect.Effect<void>
}

/**
 * Listens for signals, once per process. The first SIGINT or SIGTERM begins a graceful shutdown, and one more skips the delay. A
 * further one exits immediately with 128 + its number: the leases of running jobs expire, and other workers take over.
 *
 * SIGHUP means that the terminal is gone, and stops a server with a terminal in the same way, because Ctrl-C is no longer
 * possible. A server without a terminal reloads its settings. It never counts as a further signal, because kernel, shell and
 * supervisor may each send one.
 *
 * @param delayMs how long the service will wait after the first signal, for the log
 */
export const makeStopSignals = Effect.fnUntraced(function* (delayMs: number): Effect.fn.Return<StopSignals> {
  const log = Effect.runForkWith(yield* Effect.context())
  const reloads = yield* Queue.sliding<void>(1)
  let first: { readonly signal: NodeJS.Signals; readonly atMs: number } | undefined
  let begin: ((signal: NodeJS.Signals) => void) | undefined
  let endDelay: (() => void) | undefined

  const stop = (signal: NodeJS.Signals) => {
    first = { signal, atMs: performance.now() }
    begin?.(signal)
  }
  const onSignal = (signal: NodeJS.Signals) => {
    if (first === undefined) return stop(signal)
    const isEcho = signal === "SIGINT" && first.signal === "SIGINT" && performance.now() - first.atMs < sameKeyPressMs
    if (isEcho) return
    if (endDelay === undefined) process.exit(128 + constants.signals[signal])
    log(Effect.logInfo(`${signal}: closing now; send ${signal} again to exit immediately`))
    endDelay()
  }
  const onHangUp = (signal: NodeJS.Signals) => {
    if (first !== undefined) return
    if (hasTerminal) stop(signal)
    else Queue.offerUnsafe(reloads, undefined)
  }
  // Never removed, because further signals arrive during the shutdown.
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal).on("SIGHUP", onHangUp)

  const taken = Effect.callback<NodeJS.Signals>((resume) => {
    begin = (signal) => resume(Effect.succeed(signal))
    if (first !== undefined) begin(first.signal)
  })
  return {
    stopped: Effect.flatMap(taken, (signal) => {
      const again = signal === "SIGHUP" ? "SIGTERM" : `${signal} again`
      const next =
        delayMs === 0
          ? `send ${again} to exit immediately`
          : `accepting requests for ${delayMs / 1_000} s; send ${again} to skip the wait`
      return Effect.logInfo(`${signal}: shutting down; ${next}`)
    }),
    nextReload: Queue.take(reloads),
    delay: (ms) =>
      // Node's own timer, because the fiber that closes the scope may already be interrupted, and a sleep would not wait then.
      Effect.callback((resume) => {
        if (first === undefined || ms === 0) return resume(Effect.void)
        const timer = setTimeout(() => endDelay?.(), ms)
        endDelay = () => {
          clearTimeout(timer)
          endDelay = undefined
          resume(Effect.void)
        }
      }),
  }
})

/** Exits with 1 if shutdown takes longer than expected plus 25 s. */
export const limitStop = (expectedMs: number): Effect.Effect<void> =>
  Effect.sync(() => {
    setTimeout(
      () => {
        process.stderr.write("kiln: shutdown timed out\n")
        process.exit(1)
      },
      Math.min(expectedMs + stopGraceMs, longestTimerMs),
    ).unref()
  })
