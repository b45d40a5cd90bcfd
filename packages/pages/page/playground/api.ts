import { asObject, type Json, readConfig } from "@kiln/pages/ui"

export const config = readConfig()

/** An error that the service answered, or a connection that failed. */
export class Failure extends Error {
  /** 0 if there was no response. */
  readonly status: number
  readonly code: string
  readonly details: Json
  readonly requestId: string | undefined
  readonly retryAfter: number | undefined
  constructor(given: {
    readonly status: number
    readonly code: string
    readonly message: string
    readonly details?: Json
    readonly requestId?: string | undefined
    readonly retryAfter?: number | undefined
  }) {
    super(given.message)
    this.status = given.status
    this.code = given.code
    this.details = given.details ?? {}
    this.requestId = given.requestId
    this.retryAfter = given.retryAfter
  }

  /** Whether repeating the same request may help. Anything that is not kiln's own error body comes from something in between. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500 || this.code === "unreadable"
  }
}

const secondsOf = (header: string | null): number | undefined =>
  header !== null && /^\d+$/.test(header) ? Number(header) : undefined

/** Turns an error response into a `Failure`. */
export const failureOf = (status: number, text: string, retryAfter: string | null): Failure => {
  const shared = { status, retryAfter: secondsOf(retryAfter) }
  try {
    const { code, details, message, request_id: requestId } = asObject(asObject(JSON.parse(text))["error"])
    if (typeof code === "string" && typeof message === "string")
      return new Failure({ ...shared, code, message, details: asObject(details), requestId: String(requestId) })
  } catch {
    // Below.
  }
  return new Failure({
    ...shared,
    code: "unreadable",
    message: `Something between this page and the service answered ${status}.`,
  })
}

const offline = (): Failure => new Failure({ status: 0, code: "offline", message: "The service cannot be reached." })

export interface Answer {
  readonly body: Json
  readonly retryAfter: number | undefined
}

/** Sends a request to the service. Throws `Failure`. */
export const send = async (
  key: string | undefined,
  method: string,
  path: string,
  body?: object,
  signal?: AbortSignal,
): Promise<Answer> => {
  const headers: Record<string, string> = {}
  if (key !== undefined) headers["Authorization"] = `Bearer ${key}`
  if (body !== undefined) headers["Content-Type"] = "application/json"
  if (method === "POST" && path.startsWith("/v1/") && !path.endsWith("/uploads"))
    headers["Idempotency-Key"] = crypto.randomUUID()
  const response = await fetch(config.url + path, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  }).catch((error: unknown) => {
    throw error instanceof DOMException && error.name === "AbortError" ? error : offline()
  })
  const text = await response.text().catch(() => {
    throw offline()
  })
  if (!response.ok) throw failureOf(response.status, text, response.headers.get("retry-after"))
  try {
    return {
      body: text === "" ? {} : asObject(JSON.parse(text)),
      retryAfter: secondsOf(response.headers.get("retry-after")),
    }
  } catch {
    throw failureOf(response.status, text, response.headers.get("retry-after"))
  }
}

/** Waits, or until the signal aborts, or the browser is online again. */
const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      removeEventListener("online", done)
      signal.removeEventListener("abort", done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    addEventListener("online", done)
    signal.addEventListener("abort", done)
  })

/** The state of a job, as the service answers polls. */
export interface JobState {
  readonly id: string
  readonly status: "queued" | "processing" | "done" | "failed"
  readonly output?: Json
  readonly error_code?: string | null
  readonly error_message?: string | null
  readonly warning_code?: string | null
  readonly progress?: { readonly value: number; readonly message: string | null } | null
  readonly billing?: {
    readonly status: string
    readonly currency: string
    readonly amount: string | null
    readonly line_items: ReadonlyArray<{ readonly meter: string; readonly quantity: number; readonly amount: string }>
  }
}

export const isFinished = ({ status }: JobState): boolean => status === "done" || status === "failed"

const statuses: ReadonlySet<unknown> = new Set(["queued", "processing", "done", "failed"])

const isState = (body: Json): body is Json & JobState => typeof body["id"] === "string" && statuses.has(body["status"])

/** Reads the state of a job. Throws the `Failure` of a poll that something else answered. */
export const stateOf = (body: Json): JobState => {
  if (isState(body)) return body
  throw failureOf(200, "", null)
}

/** A poll that was lost. */
export interface Trouble {
  readonly message: string
  readonly retryAt: number
}

/** The first polls come quickly, because a sandbox job is done at once. */
const firstPollsMs = [250, 500, 1_000]
const longestPauseMs = 30_000

/**
 * Polls a job until it is finished. A poll that is lost is repeated when the response says so, and otherwise less and less often. Throws
 * the `Failure` that repeating does not help.
 */
export const follow = async (
  path: string,
  key: string | undefined,
  on: { readonly state: (state: JobState) => void; readonly trouble: (trouble: Trouble | undefined) => void },
  signal: AbortSignal,
): Promise<void> => {
  let lost = 0
  for (let n = 0; !signal.aborted; n++) {
    try {
      const { body, retryAfter = 2 } = await send(key, "GET", path, undefined, signal)
      const state = stateOf(body)
      lost = 0
      on.trouble(undefined)
      on.state(state)
      if (isFinished(state)) return
      await pause(firstPollsMs[n] ?? retryAfter * 1_000, signal)
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof Failure) || !error.isPassing) throw error
      const ms = error.retryAfter === undefined ? Math.min(longestPauseMs, 500 * 2 ** lost++) : error.retryAfter * 1_000
      on.trouble({ message: error.message, retryAt: Date.now() + ms })
      await pause(ms, signal)
    }
  }
}
