import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { authorize, type Grant, type Principal, type KeyLimits } from "@kiln/core/domain"
import { type RateLimitDecision, rateLimitHeaders, type RateLimits } from "../wire/RateLimiter.ts"
import { type Authenticate, believedForMs } from "./Authenticator.ts"
import type { Exchange } from "./Exchange.ts"
import { type KeyLimiter, localKeyLimiter } from "./KeyLimiter.ts"
import { asStep, type Ready } from "./Ready.ts"
import { Refusal } from "./Refusal.ts"

/** The limiter of each limit of keys. */
export type KeyLimiters = Readonly<Record<keyof KeyLimits, KeyLimiter>>

/** The time that a read waits for a slow store, in milliseconds, and the time for which the store is then not asked again. */
const slowMs = 250
const restMs = 1_000

// A monotonic clock, because the age of an admission decides whether its key is verified again.
const monotonicMs = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/**
 * Verifies the key again after a slow body, before anything is accepted: the key may have been revoked in the meantime.
 */
export const makeConfirm =
  (authenticate: Authenticate) =>
  (exchange: Exchange, clock: Clock.Clock): Ready<object> =>
    monotonicMs(clock) - exchange.admittedAt < believedForMs / 2 ? stillValid : authenticate(exchange, clock)

const stillValid: object = {}

/**
 * Limits reads by the buckets that processes share, and by this process's own while the store is away or slow: a read that could be
 * answered must not fail because its limit cannot be looked up. Everything else needs the store anyway.
 */
export const limitReads = (shared: KeyLimiter): KeyLimiter => {
  const own = localKeyLimiter()
  let restsUntil = -Infinity
  return {
    take: (keyId, policy, clock) => {
      if (monotonicMs(clock) < restsUntil) return own.take(keyId, policy, clock)
      const decision = shared.take(keyId, policy, clock)
      if (!Effect.isEffect(decision)) return decision
      return Effect.flatMap(Effect.timeoutOption(decision, slowMs), Effect.fromOption).pipe(
        Effect.catch(() => {
          restsUntil = monotonicMs(clock) + restMs
          return Effect.succeed(own.take(keyId, policy, clock))
        }),
      )
    },
  }
}

/** Checks key, scope and rate limit, in this order, for every request of the authenticated API. */
export const makeAdmit =
  (authenticate: Authenticate, limits: RateLimits, limiters: KeyLimiters) =>
  <S extends string>(exchange: Exchange, scope: S, limit: keyof KeyLimits, clock: Clock.Clock): Ready<Grant<S>> => {
    const judged = (grant: Grant<S>, decision: RateLimitDecision): Ready<Grant<S>> => {
      Object.assign(exchange.responseHeaders, rateLimitHeaders(limit, decision))
      if (decision.allowed) return grant
      return Effect.fail(
        new Refusal({ code: "rate_limited", headers: { "retry-after": String(decision.retryAfterSeconds) } }),
      )
    }
    const admitted = (principal: Principal): Ready<Grant<S>> => {
      const grant = authorize(principal, scope)
      if (grant === undefined) return Effect.fail(insufficientScope(scope))
      exchange.admittedAt = monotonicMs(clock)
      exchange.keyId = grant.keyId
      exchange.projectId = grant.projectId
      const policy = exchange.keyLimits[limit] ?? limits[limit]
      const decision = limiters[limit].take(grant.keyId, policy, clock)
      if (!Effect.isEffect(decision)) return judged(grant, decision)
      return Effect.flatMap(
        Effect.mapError(decision, (cause) => new Refusal({ code: "service_unavailable", cause })),
        (decided) => asStep(judged(grant, decided)),
      )
    }
    const principal = authenticate(exchange, clock)
    return Effect.isEffect(principal)
      ? Effect.flatMap(principal, (found) => asStep(admitted(found)))
      : admitted(principal)
  }

const insufficientScope = (scope: string): Refusal =>
  new Refusal({
    code: "insufficient_scope",
    message: `This API key lacks the scope ${scope}, which this endpoint requires. Use a key with this scope.`,
    details: { required_scope: scope },
    headers: { "www-authenticate": `Bearer realm="api", error="insufficient_scope", scope="${scope}"` },
  })
