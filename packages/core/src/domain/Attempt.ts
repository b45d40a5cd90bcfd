import type { ErrorCode } from "./ErrorCode.ts"

/**
 * The number of times that a job may fail, and that it may lose its worker. The two budgets are separate, so a deployment never uses up the
 * first.
 */
export interface AttemptLimits {
  /** Attempts that may end with a provider failure. */
  readonly maxFailures: number
  /** Claims whose worker may vanish. */
  readonly maxLostWorkers: number
  readonly backoffBaseMs: number
  readonly backoffMaxMs: number
  /** Maximum delay in milliseconds that a provider's Retry-After can impose. */
  readonly retryAfterMaxMs: number
}

export const defaultAttemptLimits: AttemptLimits = {
  maxFailures: 3,
  maxLostWorkers: 3,
  backoffBaseMs: 1_000,
  backoffMaxMs: 60_000,
  retryAfterMaxMs: 600_000,
}

/** Why an attempt ended without a result. */
export interface AttemptFailure {
  readonly errorCode: ErrorCode
  /** A message for the caller of a failed job; none by default. */
  readonly publicMessage?: string | undefined
  /** True if another attempt may succeed. */
  readonly retry: boolean
  /** Milliseconds the provider asked us to wait. */
  readonly retryAfterMs?: number | undefined
  /** The delay that the kind's retry policy chose, in milliseconds, instead of the exponential backoff. */
  readonly backoffMs?: number | undefined
}

export type AfterFailure =
  | { readonly next: "fail"; readonly errorCode: ErrorCode }
  | { readonly next: "defer"; readonly delayMs: number }

/**
 * Decides what follows a failed attempt: the job fails permanently if the failure is final or the budget is used up, and is
 * retried otherwise. `jitter` is uniform in [0, 1): full jitter, so that jobs that failed together are not retried together.
 */
export const afterFailure = (
  failure: AttemptFailure,
  failuresBefore: number,
  limits: AttemptLimits,
  jitter: number,
): AfterFailure => {
  if (!failure.retry || failuresBefore + 1 >= limits.maxFailures) return { next: "fail", errorCode: failure.errorCode }
  const ceiling = Math.min(limits.backoffMaxMs, limits.backoffBaseMs * 2 ** failuresBefore)
  const backoff = Math.ceil(failure.backoffMs ?? Math.floor(ceiling * jitter))
  // The delay comes from the provider: anything but a positive number of milliseconds is ignored.
  const asked = Number.isNaN(failure.retryAfterMs ?? 0)
    ? 0
    : Math.min(failure.retryAfterMs ?? 0, limits.retryAfterMaxMs)
  return { next: "defer", delayMs: Math.max(backoff, asked) }
}
