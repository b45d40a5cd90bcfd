import type { TransportOptions } from "./ClientOptions.ts"
import { ApiError, ConnectionLost, readApiError } from "./errors.ts"
import { pause } from "./pause.ts"
import { randomFraction } from "./random.ts"
import { deadlineAfter, either } from "./timers.ts"

/** A request that may be sent more than once. */
export interface Request {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: NonNullable<RequestInit["body"]>
  /** True for a stream, which can be read and sent only once. */
  readonly once?: boolean
  /** Reads a response other than JSON: of a stream, or of a download, which the service may redirect and which carries no key. */
  readonly read?: ((response: Response) => Promise<unknown>) | undefined
  readonly signal?: AbortSignal | undefined
  /** Timeout of each attempt. */
  readonly timeoutMs?: number | undefined
  /** Interprets an error of a repeated attempt: the first attempt may have succeeded or still be running. */
  readonly afterRetry?: (refusal: ApiError) => "done" | "retry" | undefined
}

export interface Answer {
  readonly headers: Headers
  /** The decoded JSON, the result of `read`, or `undefined` if there is no body. */
  readonly body: unknown
}

const FIRST_DELAY_MS = 500
const LONGEST_BACKOFF_MS = 8_000

/** Statuses of temporary failures without an effect, from the service or a proxy in front of it. */
const passingStatuses = new Set([408, 429, 502, 503, 504])

/** Returns whether the same request may succeed a moment later. */
export const isPassing = (error: unknown): boolean =>
  error instanceof ConnectionLost ||
  (error instanceof ApiError && passingStatuses.has(error.status) && error.headers.get("x-should-retry") !== "false")

/**
 * Sends a request, and retries it after a lost connection or a temporary failure. Every request of this client can be repeated:
 * jobs are created under an idempotency key, and the others are idempotent.
 */
export const sendRequest = async (options: TransportOptions, request: Request): Promise<Answer> => {
  const retries = request.once === true ? 0 : (options.maxRetries ?? 2)
  const longest = options.maxRetryDelayMs ?? 60_000
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await attemptOnce(options.fetch ?? globalThis.fetch, request)
    } catch (error) {
      request.signal?.throwIfAborted()
      const meaning = attempt > 0 && error instanceof ApiError ? request.afterRetry?.(error) : undefined
      if (meaning === "done" && error instanceof ApiError) return { headers: error.headers, body: undefined }
      const asked = error instanceof ApiError ? error.retryAfterMs : null
      const mayRepeat = attempt < retries && (meaning === "retry" || isPassing(error))
      if (!mayRepeat || (asked ?? 0) > longest) throw error
      await pause(asked ?? backoffMs(attempt), request.signal)
    }
  }
}

/** Doubles with each attempt; half of it is random, so that clients that failed together do not retry together. */
const backoffMs = (attempt: number): number =>
  Math.min(LONGEST_BACKOFF_MS, FIRST_DELAY_MS * 2 ** attempt) * (0.5 + 0.5 * randomFraction())

const attemptOnce = async (fetch: typeof globalThis.fetch, request: Request): Promise<Answer> => {
  const { content, response } = await exchange(fetch, request)
  if (typeof content !== "string") return { headers: response.headers, body: content }
  if (!response.ok) throw readApiError(response, content)
  if (content === "") return { headers: response.headers, body: undefined }
  try {
    return { headers: response.headers, body: JSON.parse(content) }
  } catch {
    throw readApiError(response, content)
  }
}

const exchange = async (fetch: typeof globalThis.fetch, { body, headers, method, ...request }: Request) => {
  const deadline = deadlineAfter(request.timeoutMs)
  try {
    const response = await fetch(request.url, {
      method,
      headers,
      // Do not send request or file to another address. `fetch` follows to another origin without the key.
      redirect: request.read ? "follow" : "manual",
      ...(body !== undefined && { body }),
      // Node and the specification require this for streams, which are sent before the response is read.
      ...(request.once === true && { duplex: "half" }),
      signal: either(request.signal, deadline),
    })
    return { response, content: await (request.read?.(response) ?? response.text()) }
  } catch (error) {
    request.signal?.throwIfAborted()
    throw new ConnectionLost(error)
  } finally {
    deadline.cancel()
  }
}
