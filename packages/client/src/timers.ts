import { ConnectionLost } from "./errors.ts"

/** Maximum delay of a timer, about 24 days. A timer with a longer delay fires immediately. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Calls `run` after any number of milliseconds; `Infinity` means never. Returns a function that cancels it. */
export const after = (ms: number, run: () => void): (() => void) => {
  let timer: ReturnType<typeof setTimeout>
  const begin = (leftMs: number): void => {
    const next = (): void => (leftMs > LONGEST_TIMER_MS ? begin(leftMs - LONGEST_TIMER_MS) : run())
    timer = setTimeout(next, Math.min(leftMs, LONGEST_TIMER_MS))
  }
  begin(ms)
  return () => clearTimeout(timer)
}

/** A signal that aborts at a time, unless it is cancelled. */
export interface Deadline {
  readonly signal: AbortSignal
  readonly cancel: () => void
}

/**
 * Returns a signal that aborts with a `TimeoutError` after this many milliseconds, by default never. Cancel it when it is no longer needed.
 * Throws `TypeError` for what is no time.
 */
export const deadlineAfter = (timeoutMs = Infinity): Deadline => {
  const controller = new AbortController()
  const cancel = after(milliseconds("timeoutMs", timeoutMs), () =>
    controller.abort(new DOMException("The operation timed out.", "TimeoutError")),
  )
  return { signal: controller.signal, cancel }
}

/** Returns a signal that aborts with another one or at the deadline. */
export const either = (signal: AbortSignal | undefined, deadline: Deadline): AbortSignal =>
  signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal

/** Makes a call that ends with the signal or the deadline. Once the deadline has passed, it rejects with what `late` returns: by default that the service did not respond. */
export const within = async <A>(
  signal: AbortSignal | undefined,
  deadline: Deadline,
  call: (signal: AbortSignal) => Promise<A>,
  late = (error: unknown): Error => new ConnectionLost(error),
): Promise<A> => {
  try {
    return await call(either(signal, deadline))
  } catch (error) {
    signal?.throwIfAborted()
    throw deadline.signal.aborted ? late(error) : error
  }
}

/** Returns a number of milliseconds, or `Infinity`. Throws `TypeError` for anything else: a timer would take it for 0. */
export const milliseconds = (name: string, value: unknown): number => {
  if (typeof value === "number" && value >= 0) return value
  throw new TypeError(`${name} must be a non-negative number of milliseconds`)
}
