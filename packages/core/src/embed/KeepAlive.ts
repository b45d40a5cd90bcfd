import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

/** A timer of Node, or the number that other runtimes return. */
type Timer = ReturnType<typeof setTimeout> | number

/** An hour: it never has anything to do. */
const tickMs = 3_600_000

/**
 * Keeps the process alive while something is in progress, and not longer: the sweeps and the idle connections of an engine are no
 * reason for a process to stay. Their timers and sockets do not count (`backgroundClock`), so this has one that does.
 */
export class KeepAlive {
  readonly #isRealTime: boolean
  #holders = 0
  #timer: Timer | undefined

  /** In virtual time, it never keeps the process alive: if nothing else does, nobody is left who could advance the time. */
  constructor(isRealTime: boolean) {
    this.#isRealTime = isRealTime
  }

  /** Keeps the process alive until the returned function is called. */
  hold(): () => void {
    if (!this.#isRealTime) return () => undefined
    this.#holders += 1
    this.#timer ??= setInterval(() => undefined, tickMs)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#holders -= 1
      if (this.#holders > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }
  }

  /** Does the same, but no longer than until the signal is aborted. */
  holdUntil(signal: AbortSignal): () => void {
    if (signal.aborted) return () => undefined
    const release = this.hold()
    signal.addEventListener("abort", release, { once: true })
    return release
  }

  /** Keeps the process alive until the promise settles. */
  async while<A>(promise: Promise<A>): Promise<A> {
    const release = this.hold()
    try {
      return await promise
    } finally {
      release()
    }
  }
}

const usual = Context.get(Context.empty(), Clock.Clock)

/** The longest wait of a timer of Node. A longer one would end at once. */
const longestMs = 2 ** 31 - 1

const sleepMs = (ms: number): Effect.Effect<void> => {
  if (ms <= 0) return Effect.yieldNow
  if (!Number.isFinite(ms)) return Effect.never
  return Effect.callback((resume) => {
    const rest = ms > longestMs ? sleepMs(ms - longestMs) : Effect.void
    const timer: Timer = setTimeout(() => resume(rest), Math.min(ms, longestMs))
    if (typeof timer === "object") timer.unref()
    return Effect.sync(() => clearTimeout(timer))
  })
}

/** The time of the system, with sleeps that do not keep the process alive. */
export const backgroundClock: Clock.Clock = Object.create(usual, {
  sleep: { value: (duration: Parameters<Clock.Clock["sleep"]>[0]) => sleepMs(Duration.toMillis(duration)) },
}) as Clock.Clock
