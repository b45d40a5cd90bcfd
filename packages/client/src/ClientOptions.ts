import type { AudioFormat } from "./wire.ts"

/** Where the service is, who asks, and how patiently. */
export interface ClientOptions extends TransportOptions {
  /** For example `https://kiln.example.com`, with the prefix the service is mounted under, if any; without `/v1`. */
  readonly baseUrl: string
  /** `kiln_test_…` or `kiln_live_…`. A secret: keep it on your server. */
  readonly apiKey: string
  /** How long one request may take before it counts as lost. Default 60,000 ms. Files take as long as they take. */
  readonly timeoutMs?: number
}

export interface TransportOptions {
  /** In the place of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch
  /** How often a request is repeated that may be repeated. Default 2; `0` never. */
  readonly maxRetries?: number
  /** A service that asks for more patience than this gets none: its answer is thrown at once. Default 60,000 ms. */
  readonly maxRetryDelayMs?: number
}

export interface CallOptions {
  /** Rejects with the signal's reason; what was sent already may still happen. */
  readonly signal?: AbortSignal
}

export interface CreateOptions extends CallOptions {
  /**
   * Of your own, so that your repeated call finds the job of the first. Without one each call is a job of its own, whose
   * retries share a key that is made up.
   */
  readonly idempotencyKey?: string
}

export interface WaitOptions extends CallOptions {
  /** How long to wait at most. Default 600,000 ms. */
  readonly timeoutMs?: number
}

export interface SendOptions extends CallOptions {
  /** The format that was announced. */
  readonly format: AudioFormat
}
