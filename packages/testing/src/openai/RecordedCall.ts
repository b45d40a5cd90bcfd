import type { OpenAiBehavior } from "./Behavior.ts"
import type { OpenAiEndpoint, OpenAiRequests } from "./Endpoint.ts"

/**
 * State of a call. `answered`: the last byte of the response was written to the client's socket. `failed`: the response was
 * an error (status 400 or above), or the stand-in broke the connection. `client_gone`: the client disconnected before.
 */
export type OpenAiOutcome = "running" | "answered" | "failed" | "client_gone"

/** One call of the stand-in. */
export interface RecordedOpenAiCall<E extends OpenAiEndpoint = OpenAiEndpoint> {
  /** 1-based, in order of start; continues the numbers of an existing journal. */
  readonly number: number
  /** `undefined` for a wrong method or path. */
  readonly endpoint: E | undefined
  readonly method: string
  readonly path: string
  readonly headers: {
    /** Whether the header was present; its value is not kept. */
    readonly authorization: boolean
    readonly idempotencyKey?: string
    readonly contentType?: string
    readonly userAgent?: string
  }
  /** The requested model, known or not. */
  readonly model?: string
  /** Missing until the request is received, and if it was rejected. */
  readonly request?: OpenAiRequests[E]
  /** The applied behavior; missing if the request was rejected. */
  readonly behavior?: OpenAiBehavior<never>["_tag"]
  readonly outcome: OpenAiOutcome
  /** Status of the response, once it has begun. */
  readonly status?: number
  /** Start in Unix milliseconds. */
  readonly beganAtMs: number
  /** Time at which the response was flushed or failed, or the client closed the connection. */
  readonly endedAtMs?: number
}
