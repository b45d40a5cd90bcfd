import type { AudioFormat, JobStatus } from "./wire.ts"

/** The address of the service, the API key, timeouts and retries. */
export interface ClientOptions extends TransportOptions {
  /**
   * For example `https://kiln.example.com`, with the prefix the service is mounted under, if any; without `/v1`. In a browser, `""` and
   * `/prefix` refer to the page's own origin.
   */
  readonly baseUrl: string
  /** `kiln_test_…` or `kiln_live_…`. A secret: keep it on your server. Omit it where the service authenticates by cookies. */
  readonly apiKey?: string
  /** Timeout of one request in milliseconds, default 60,000. Sending a file has no timeout. */
  readonly timeoutMs?: number
}

export interface TransportOptions {
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch
  /** Maximum number of retries of a request, default 2; `0` disables retries. */
  readonly maxRetries?: number
  /** Maximum `Retry-After` in milliseconds, default 60,000. A response that asks for a longer wait is thrown immediately. */
  readonly maxRetryDelayMs?: number
}

export interface CallOptions {
  /** Rejects with the signal's reason. A request that was already sent may still take effect. */
  readonly signal?: AbortSignal
}

export interface CreateOptions extends CallOptions {
  /**
   * Set it so that a repeated call finds the job of the first. If omitted, each call creates a job under a random key, which its
   * retries share.
   */
  readonly idempotencyKey?: string
}

export interface WaitOptions extends CallOptions {
  /** Maximum wait in milliseconds, default 600,000. */
  readonly timeoutMs?: number
}

export interface StreamOptions extends CallOptions {
  /** The index of the first chunk, default 0. */
  readonly from?: number
}

/** The progress of a call that runs a job from its request to its result. */
export interface RunProgress {
  readonly step: "uploading" | "waiting" | "downloading"
  /** Present once the job exists. */
  readonly jobId?: string
  readonly status?: JobStatus
  /** The progress that a job of a custom kind reported. */
  readonly progress?: { readonly value: number; readonly message: string | null }
}

export interface RunOptions extends CreateOptions, WaitOptions {
  /**
   * Repeat the call with the same key, request and file after a crash, and it returns the result of the first job, without another
   * upload. With a file, at most 230 characters.
   */
  readonly idempotencyKey?: string
  /** Maximum duration of the call in milliseconds. Without it, only the wait for the job is limited, to 600,000. */
  readonly timeoutMs?: number
  /** Called at each step, and with each state that is polled. */
  readonly onProgress?: (progress: RunProgress) => void
}

export interface SendOptions extends CallOptions {
  /** The format that was announced. */
  readonly format: AudioFormat
}
