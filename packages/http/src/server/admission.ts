import { Clock, Effect } from "effect"
import { authorize, type Grant, type KeyScope } from "@kiln/core/domain"
import { RateLimiter, rateLimitHeaders, type RateLimits } from "../wire/RateLimiter.ts"
import { type Authenticate, believedForMs } from "./Authenticator.ts"
import type { Exchange } from "./Exchange.ts"
import { Refusal } from "./Refusal.ts"

type KeyLimit = Exclude<keyof RateLimits, "authentication" | "pages">

/** By a clock that nobody sets: how old an admission is decides whether its key is looked at again. */
const monotonicMs = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

/**
 * Of a body that took its time to arrive, the key is looked at once more before anything is accepted: it may have been
 * revoked meanwhile, and a slow sender must not outlive that.
 */
export const makeConfirm =
  (authenticate: Authenticate) =>
  (exchange: Exchange): Effect.Effect<void, Refusal> =>
    Effect.flatMap(monotonicMs, (now) =>
      now - exchange.admittedAt < believedForMs / 2 ? Effect.void : Effect.asVoid(authenticate(exchange)),
    )

/** Key, scope, rate limit: what every request of the authenticated API passes first, in this order. */
export const makeAdmit = (authenticate: Authenticate, limits: RateLimits) => {
  const limiters: Readonly<Record<KeyLimit, RateLimiter>> = {
    create: new RateLimiter(limits.create),
    upload: new RateLimiter(limits.upload),
    read: new RateLimiter(limits.read),
    delete: new RateLimiter(limits.delete),
  }
  return Effect.fnUntraced(function* <S extends KeyScope>(
    exchange: Exchange,
    scope: S,
    limit: KeyLimit,
  ): Effect.fn.Return<Grant<S>, Refusal> {
    const principal = yield* authenticate(exchange)
    const grant = authorize(principal, scope)
    if (grant === undefined) return yield* insufficientScope(scope)
    exchange.admittedAt = yield* monotonicMs
    const decision = limiters[limit].take(grant.keyId, yield* Clock.currentTimeMillis)
    Object.assign(exchange.responseHeaders, rateLimitHeaders(limit, decision))
    if (!decision.allowed)
      return yield* new Refusal({
        code: "rate_limited",
        headers: { "retry-after": String(decision.retryAfterSeconds) },
      })
    return grant
  })
}

const insufficientScope = (scope: KeyScope): Refusal =>
  new Refusal({
    code: "insufficient_scope",
    details: { required_scope: scope },
    headers: { "www-authenticate": `Bearer realm="api", error="insufficient_scope", scope="${scope}"` },
  })
