import type { Ask, ClientRoute } from "./Ask.ts"
import type { CallOptions, StreamOptions, WaitOptions } from "./ClientOptions.ts"
import { ApiError, retryAfterMs, WaitTimeout } from "./errors.ts"
import type { JobReference } from "./JobStates.ts"
import { type Names, requireKnown } from "./knownOptions.ts"
import { pause } from "./pause.ts"
import { isPassing } from "./sendRequest.ts"
import type { StreamEvent } from "./stream.ts"
import { type Deadline, deadlineAfter, within } from "./timers.ts"

/** Interval used if the service does not recommend one. */
const POLL_INTERVAL_MS = 2_000

/**
 * Shortest and longest pause between two polls. They limit `Retry-After`: 0 would flood the service, and a proxy that sends a
 * month would hide the end of a job.
 */
const SHORTEST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 60_000

/** Seconds that the service is asked to hold a poll for. Proxies commonly close a connection that is silent for 30 s or more. */
const HOLD_SECONDS = 20

const waitOptions: Names<WaitOptions> = { signal: true, timeoutMs: true }

export interface State {
  readonly status: string
}
type OnState = (state: State) => void
type Finished = State & { readonly status: "done" | "failed" }
type Reference = JobReference<string>

/** Reads, awaits and erases jobs of all families. */
export const jobOperations = (ask: Ask, routes: ReadonlyArray<ClientRoute>, requestMs: number) => {
  const familyOf = ({ type }: Reference): ClientRoute["family"] => {
    const route = routes.find(({ kind }) => kind.name === type)
    if (route === undefined) throw new TypeError(`unknown job type "${type}"; pass its route to createClient()`)
    return route.family
  }

  // A request that times out while it is held would be lost.
  const holdSeconds = Math.min(HOLD_SECONDS, Math.floor(requestMs / 2_000))

  const poll = async (job: Reference, options: CallOptions, seconds = 0) => {
    const { noun, poll: path } = familyOf(job)
    const asked = { id: job.id, headers: seconds > 0 ? { prefer: `wait=${seconds}` } : {} }
    const { body, headers } = await ask(`poll${noun}Job`, "GET", path, options, asked)
    // Only a service that has held the request is asked again at once.
    const wasHeld = headers.has("preference-applied")
    return { state: body as State, pauseMs: wasHeld ? 0 : (retryAfterMs(headers) ?? POLL_INTERVAL_MS) }
  }

  const waitUntil = async (job: Reference, signal: AbortSignal, onState?: OnState): Promise<Finished> => {
    let seconds = holdSeconds
    for (;;) {
      const { pauseMs, state } = await poll(job, { signal }, seconds).catch((error: unknown) => {
        signal.throwIfAborted()
        if (!isPassing(error)) throw error
        // A proxy may have cut the connection while the request was held.
        seconds = 0
        const askedMs = error instanceof ApiError ? error.retryAfterMs : null
        return { state: undefined, pauseMs: askedMs ?? POLL_INTERVAL_MS }
      })
      if (state !== undefined) {
        onState?.(state)
        if (isFinished(state)) return state
      }
      await pause(Math.min(Math.max(pauseMs, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS), signal)
    }
  }

  return {
    get: async (job: Reference, options: CallOptions = {}) => (await poll(job, options)).state,
    /** `limit` is the deadline of the whole call that waits. */
    wait: async (job: Reference, options: WaitOptions = {}, onState?: OnState, limit?: Deadline) => {
      requireKnown("jobs.wait()", options, waitOptions)
      const { signal, timeoutMs = 600_000 } = options
      const deadline = limit ?? deadlineAfter(timeoutMs)
      try {
        const late = () => new WaitTimeout(job.id, timeoutMs)
        return await within(signal, deadline, (either) => waitUntil(job, either, onState), late)
      } finally {
        deadline.cancel()
      }
    },
    signal: async (job: Reference, name: string, value: unknown = null, options: CallOptions = {}) => {
      const { noun, poll: path } = familyOf(job)
      const asked = { id: job.id, fields: { value } }
      return (await ask(`signal${noun}Job`, "POST", `${path}/signals/${encodeURIComponent(name)}`, options, asked)).body
    },
    async *stream(job: Reference, options?: StreamOptions): AsyncGenerator<StreamEvent, undefined> {
      yield* (await import("./stream.ts")).stream(ask, familyOf(job), job, options)
    },
    eraseData: async (job: Reference, options: CallOptions = {}) => {
      const { noun, poll: path } = familyOf(job)
      await ask(`erase${noun}JobData`, "DELETE", `${path}/data`, options, { id: job.id })
    },
  }
}

const isFinished = (state: State): state is Finished => state.status === "done" || state.status === "failed"
