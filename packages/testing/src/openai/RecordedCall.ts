import type { OpenAiBehavior } from "./Behavior.ts"
import type { OpenAiEndpoint, OpenAiRequests } from "./Endpoint.ts"

/**
 * How a call stands. `answered`: the last byte of the answer has left for the client's socket. `failed`: the answer was an
 * error (status 400 or above), or the stand-in broke the connection itself. `client_gone`: the client closed it before.
 */
export type OpenAiOutcome = "running" | "answered" | "failed" | "client_gone"

/** One call that reached the stand-in. */
export interface RecordedOpenAiCall<E extends OpenAiEndpoint = OpenAiEndpoint> {
  /** 1-based, in the order in which calls began; goes on where a journal is continued. */
  readonly number: number
  /** `undefined` where no such endpoint is served: a wrong method or path. */
  readonly endpoint: E | undefined
  readonly method: string
  readonly path: string
  readonly headers: {
    /** Whether there was one; what it said is not kept. */
    readonly authorization: boolean
    readonly idempotencyKey?: string
    readonly contentType?: string
    readonly userAgent?: string
  }
  /** As the request named it, whether it is known or not. */
  readonly model?: string
  /** Missing while the request is on its way, and where it was refused. */
  readonly request?: OpenAiRequests[E]
  /** What was done with it; missing where the request itself was refused. */
  readonly behavior?: OpenAiBehavior<never>["_tag"]
  readonly outcome: OpenAiOutcome
  /** Of the answer, once it has begun. */
  readonly status?: number
  /** Milliseconds since 1970. */
  readonly beganAtMs: number
  /** When it was flushed, failed, or the client's end of the connection was seen to close. */
  readonly endedAtMs?: number
}
