import type { Client } from "./Client.ts"
import type { CallOptions, WaitOptions } from "./ClientOptions.ts"
import { ApiError, retryAfterMs, WaitTimeout } from "./errors.ts"
import type { FinishedJob, JobReference, JobStates, JobType } from "./JobStates.ts"
import { type Names, requireKnown } from "./knownOptions.ts"
import { pause } from "./pause.ts"
import type { RouteName } from "./routes.ts"
import { type Answer, isPassing } from "./sendRequest.ts"
import { deadlineAfter, milliseconds } from "./timers.ts"

/** Asks one of the routes. */
export type Ask = (
  route: RouteName,
  options: CallOptions,
  request?: { readonly id?: string; readonly fields?: object; readonly idempotencyKey?: string },
) => Promise<Answer>

/** What the service recommends, where it does not say. */
const POLL_INTERVAL_MS = 2_000

/**
 * Shortest and longest pause between two polls, whatever `Retry-After` says: 0 would be a storm, and a proxy that says a month
 * keeps nobody from the end of a job.
 */
const SHORTEST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 60_000

const waitOptions: Names<WaitOptions> = { signal: true, timeoutMs: true }

const isImage = (job: JobReference): boolean => job.type === "image_generation"

/** Reading, awaiting and erasing jobs. */
export const jobOperations = (ask: Ask): Client["jobs"] => {
  const poll = async <Type extends JobType>(job: JobReference<Type>, options: CallOptions) => {
    const { body, headers } = await ask(isImage(job) ? "pollImageJob" : "pollAudioJob", options, { id: job.id })
    return { state: body as JobStates[Type], pauseMs: retryAfterMs(headers) ?? POLL_INTERVAL_MS }
  }

  const waitUntil = async <Type extends JobType>(
    job: JobReference<Type>,
    signal: AbortSignal,
  ): Promise<FinishedJob<Type>> => {
    for (;;) {
      const { pauseMs, state } = await poll(job, { signal }).catch((error: unknown) => {
        signal.throwIfAborted()
        if (!isPassing(error)) throw error
        const askedMs = error instanceof ApiError ? error.retryAfterMs : null
        return { state: undefined, pauseMs: askedMs ?? POLL_INTERVAL_MS }
      })
      if (state !== undefined && isFinished<Type>(state)) return state
      await pause(Math.min(Math.max(pauseMs, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS), signal)
    }
  }

  return {
    get: async (job, options = {}) => (await poll(job, options)).state,
    wait: async (job, options: WaitOptions = {}) => {
      requireKnown("jobs.wait()", options, waitOptions)
      const { signal, timeoutMs = 600_000 } = options
      const deadline = deadlineAfter(milliseconds("timeoutMs", timeoutMs))
      try {
        return await waitUntil(job, signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]))
      } catch (error) {
        signal?.throwIfAborted()
        throw deadline.signal.aborted ? new WaitTimeout(job.id, timeoutMs) : error
      } finally {
        deadline.cancel()
      }
    },
    eraseData: async (job, options = {}) => {
      await ask(isImage(job) ? "eraseImageJobData" : "eraseAudioJobData", options, { id: job.id })
    },
  }
}

const isFinished = <Type extends JobType>(state: JobStates[Type]): state is FinishedJob<Type> =>
  state.status === "done" || state.status === "failed"
