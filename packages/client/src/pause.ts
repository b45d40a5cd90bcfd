import { after } from "./timers.ts"

/** Resolves after this many milliseconds; rejects with the signal's reason when it is aborted. */
export const pause = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(asError(signal.reason))
      return
    }
    const abort = (): void => {
      cancel()
      reject(asError(signal?.reason))
    }
    const cancel = after(ms, () => {
      signal?.removeEventListener("abort", abort)
      resolve()
    })
    signal?.addEventListener("abort", abort, { once: true })
  })

// Also accepts a `DOMException` of another realm, which tests under jest see.
const isError = (value: unknown): value is Error =>
  value instanceof Error || /^\[object (Error|DOMException)\]$/.test(Object.prototype.toString.call(value))

const asError = (reason: unknown): Error => (isError(reason) ? reason : new DOMException(String(reason), "AbortError"))
