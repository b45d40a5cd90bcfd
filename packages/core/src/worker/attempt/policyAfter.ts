import * as Effect from "effect/Effect"
import type { FailureReason, AttemptLimits } from "../../domain/Attempt.ts"
import { outsideOfCallers } from "../../engine/outsideOfCallers.ts"
import type { Attempt } from "./Attempt.ts"
import { logCause } from "./AttemptEnd.ts"

interface Policy {
  readonly failure: FailureReason
  readonly limits: AttemptLimits
}

/**
 * Applies the kind's retry policy to a failure. An exception in one of its functions is logged, and the job is retried as if the
 * kind had no policy: a bug in the policy must not decide about a job.
 */
export const policyAfter = (
  { claim: { job }, kind: { limits, retry } }: Attempt,
  failure: FailureReason,
  error: unknown,
  attempts: AttemptLimits,
): Effect.Effect<Policy> => {
  const policy: Policy = { failure, limits: { ...attempts, maxFailures: limits.maxFailures ?? attempts.maxFailures } }
  if (!failure.retry || (retry.backoff === undefined && retry.retryIf === undefined)) return Effect.succeed(policy)
  return Effect.catchCause(
    Effect.sync((): Policy => {
      if (
        noPromise(
          "retryIf",
          outsideOfCallers(() => retry.retryIf?.(error)),
        ) === false
      )
        return { ...policy, failure: { ...failure, retry: false } }
      const { backoff } = retry
      if (backoff === undefined) return policy
      if (typeof backoff !== "function") return { ...policy, limits: withBounds(policy.limits, backoff) }
      const delayMs = noPromise(
        "backoff",
        outsideOfCallers(() => backoff(job.failures + 1, error)),
      )
      if (!(delayMs >= 0)) throw new TypeError("retry.backoff must return a non-negative number of milliseconds")
      return { ...policy, failure: { ...failure, backoffMs: Math.min(delayMs, longestBackoffMs) } }
    }),
    (cause) => Effect.as(logCause(Effect.logError, "the retry policy of a kind failed", cause), policy),
  )
}

/** A promise says nothing in time. Its rejection must not become an unhandled one, which ends the process. */
const noPromise = <A>(name: string, value: A): A => {
  if (typeof value !== "object" || value === null) return value
  Promise.resolve(value).catch(() => undefined)
  throw new TypeError(`retry.${name} must return its value, not a promise`)
}

/** A job is delayed by at most as long as one can be when it is submitted. */
const longestBackoffMs = 366 * 24 * 3_600_000

const withBounds = (
  limits: AttemptLimits,
  { baseMs = limits.backoffBaseMs, maxMs = limits.backoffMaxMs }: { readonly baseMs?: number; readonly maxMs?: number },
): AttemptLimits => ({ ...limits, backoffBaseMs: baseMs, backoffMaxMs: Math.max(baseMs, maxMs) })
