import { after } from "./timers.ts"

/** Resolves after so many milliseconds; rejects with the signal's reason as soon as it is aborted. */
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

// Also of a `DOMException` of another realm, as tests under jest see those of the platform.
const isError = (value: unknown): value is Error =>
  value instanceof Error || /^\[object (Error|DOMException)\]$/.test(Object.prototype.toString.call(value))

const asError = (reason: unknown): Error => (isError(reason) ? reason : new DOMException(String(reason), "AbortError"))
