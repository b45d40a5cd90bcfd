import type { ErrorCode } from "./ErrorCode.ts"

/** How often a job may fail and lose its worker. Two budgets, counted apart: a deploy never burns the first. */
export interface AttemptLimits {
  /** Attempts that may end in a provider's failure. */
  readonly maxFailures: number
  /** Claims whose worker may vanish. */
  readonly maxLostWorkers: number
  readonly backoffBaseMs: number
  readonly backoffMaxMs: number
  /** The longest a provider's Retry-After is honored. */
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
  /** Whether another attempt may succeed. */
  readonly retry: boolean
  /** Milliseconds the provider asked us to wait. */
  readonly retryAfterMs?: number | undefined
}

export type AfterFailure =
  | { readonly next: "fail"; readonly errorCode: ErrorCode }
  | { readonly next: "defer"; readonly delayMs: number }

/**
 * What follows a failed attempt: the job fails for good when the failure is final or the budget is
 * spent, else it is tried again. `jitter` is uniform in [0, 1): full jitter, so that jobs that
 * failed together do not come back together.
 */
export const afterFailure = (
  failure: AttemptFailure,
  failuresBefore: number,
  limits: AttemptLimits,
  jitter: number,
): AfterFailure => {
  if (!failure.retry || failuresBefore + 1 >= limits.maxFailures) return { next: "fail", errorCode: failure.errorCode }
  const ceiling = Math.min(limits.backoffMaxMs, limits.backoffBaseMs * 2 ** failuresBefore)
  const backoff = Math.floor(ceiling * jitter)
  // What a provider asks for is its own text: anything but a positive number of milliseconds is no request to wait.
  const asked = Number.isNaN(failure.retryAfterMs ?? 0)
    ? 0
    : Math.min(failure.retryAfterMs ?? 0, limits.retryAfterMaxMs)
  return { next: "defer", delayMs: Math.max(backoff, asked) }
}
