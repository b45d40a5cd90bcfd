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

/** Returns a signal that aborts with a `TimeoutError` after this many milliseconds. Cancel it when it is no longer needed. */
export const deadlineAfter = (ms: number): Deadline => {
  const controller = new AbortController()
  const cancel = after(ms, () => controller.abort(new DOMException("The operation timed out.", "TimeoutError")))
  return { signal: controller.signal, cancel }
}

/** Returns a number of milliseconds, or `Infinity`. Throws `TypeError` for anything else: a timer would take it for 0. */
export const milliseconds = (name: string, value: unknown): number => {
  if (typeof value === "number" && value >= 0) return value
  throw new TypeError(`${name} must be a non-negative number of milliseconds`)
}
