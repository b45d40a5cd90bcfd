import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import type { RequestFailed } from "./api.ts"

export interface Loaded<A> {
  readonly value: A | undefined
  readonly error: RequestFailed | undefined
  readonly reload: () => void
}

/**
 * Loads something now, when `key` changes, and every `everyMs` while the tab is visible. Keeps the last value of the same key if a later
 * load fails.
 */
export const useLoaded = <A>(
  key: string,
  load: (signal: AbortSignal) => Promise<A>,
  everyMs: number | undefined = 5_000,
): Loaded<A> => {
  const [state, setState] = useState<{ readonly key: string; readonly value?: A; readonly error?: RequestFailed }>({
    key,
  })
  const [turn, setTurn] = useState(0)
  const latest = useRef(load)
  latest.current = load
  useEffect(() => {
    const controller = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const run = async (): Promise<void> => {
      if (document.visibilityState === "visible") {
        try {
          const value = await latest.current(controller.signal)
          if (!controller.signal.aborted) setState({ key, value })
        } catch (error) {
          if (!controller.signal.aborted)
            setState((before) => ({ ...(before.key === key ? before : { key }), error: error as RequestFailed }))
        }
      }
      if (!controller.signal.aborted && everyMs !== undefined) timer = setTimeout(() => void run(), everyMs)
    }
    void run()
    return () => {
      controller.abort()
      clearTimeout(timer)
    }
  }, [key, turn, everyMs])
  const reload = useCallback(() => setTurn((before) => before + 1), [])
  return {
    value: state.key === key ? state.value : undefined,
    error: state.key === key ? state.error : undefined,
    reload,
  }
}
