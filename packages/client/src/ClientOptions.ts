import type { AudioFormat } from "./wire.ts"

/** The address of the service, the API key, timeouts and retries. */
export interface ClientOptions extends TransportOptions {
  /** For example `https://kiln.example.com`, with the prefix the service is mounted under, if any; without `/v1`. */
  readonly baseUrl: string
  /** `kiln_test_…` or `kiln_live_…`. A secret: keep it on your server. */
  readonly apiKey: string
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

export interface SendOptions extends CallOptions {
  /** The format that was announced. */
  readonly format: AudioFormat
}
