import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { authorize, type Grant, type KeyScope, type Principal } from "@kiln/core/domain"
import { RateLimiter, rateLimitHeaders, type RateLimits } from "../wire/RateLimiter.ts"
import { type Authenticate, believedForMs } from "./Authenticator.ts"
import type { Exchange } from "./Exchange.ts"
import { Refusal } from "./Refusal.ts"

type KeyLimit = Exclude<keyof RateLimits, "authentication" | "pages">

// A monotonic clock, because the age of an admission decides whether its key is verified again.
const monotonicMs = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/**
 * Verifies the key again after a slow body, before anything is accepted: the key may have been revoked in the meantime.
 */
export const makeConfirm =
  (authenticate: Authenticate) =>
  (exchange: Exchange): Effect.Effect<void, Refusal> =>
    Clock.clockWith((clock) =>
      monotonicMs(clock) - exchange.admittedAt < believedForMs / 2
        ? Effect.void
        : Effect.asVoid(authenticate(exchange)),
    )

/** Checks key, scope and rate limit, in this order, for every request of the authenticated API. */
export const makeAdmit = (authenticate: Authenticate, limits: RateLimits) => {
  const limiters: Readonly<Record<KeyLimit, RateLimiter>> = {
    create: new RateLimiter(limits.create),
    upload: new RateLimiter(limits.upload),
    read: new RateLimiter(limits.read),
    delete: new RateLimiter(limits.delete),
  }
  return <S extends KeyScope>(exchange: Exchange, scope: S, limit: KeyLimit): Effect.Effect<Grant<S>, Refusal> => {
    const admitted = (principal: Principal, clock: Clock.Clock): Effect.Effect<Grant<S>, Refusal> => {
      const grant = authorize(principal, scope)
      if (grant === undefined) return Effect.fail(insufficientScope(scope))
      exchange.admittedAt = monotonicMs(clock)
      exchange.keyId = grant.keyId
      exchange.projectId = grant.projectId
      const decision = limiters[limit].take(grant.keyId, clock.currentTimeMillisUnsafe())
      Object.assign(exchange.responseHeaders, rateLimitHeaders(limit, decision))
      if (decision.allowed) return Effect.succeed(grant)
      return Effect.fail(
        new Refusal({ code: "rate_limited", headers: { "retry-after": String(decision.retryAfterSeconds) } }),
      )
    }
    return Effect.flatMap(authenticate(exchange), (principal) => Clock.clockWith((clock) => admitted(principal, clock)))
  }
}

const insufficientScope = (scope: KeyScope): Refusal =>
  new Refusal({
    code: "insufficient_scope",
    details: { required_scope: scope },
    headers: { "www-authenticate": `Bearer realm="api", error="insufficient_scope", scope="${scope}"` },
  })
