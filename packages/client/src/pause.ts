/** Resolves after so many milliseconds; rejects with the signal's reason as soon as it is aborted. */
export const pause = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(asError(signal.reason))
      return
    }
    const abort = (): void => {
      clearTimeout(timer)
      reject(asError(signal?.reason))
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort)
      resolve()
    }, ms)
    signal?.addEventListener("abort", abort, { once: true })
  })

const asError = (reason: unknown): Error =>
  reason instanceof Error ? reason : new DOMException(String(reason), "AbortError")
