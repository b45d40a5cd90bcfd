import type { RateLimitPolicy } from "@kiln/core/domain"
import { addressRateLimitKey, clientAddress, type TrustedProxies } from "../wire/ClientAddress.ts"
import { type RateLimitDecision, RateLimiter, type RateLimitName } from "./rateLimits.ts"
import { type Exchange, rateLimitHeaders, Refusal } from "./Exchange.ts"

/** Returns the client's address: see `clientAddress`. */
export const addressOf = (exchange: Exchange, trusted: TrustedProxies): string =>
  clientAddress(exchange.source.remoteAddress, exchange.header("x-forwarded-for"), trusted)

/** Takes a token from the bucket of a request's client address, at a time in Unix milliseconds. */
export type TakeByAddress = (exchange: Exchange, now: number) => RateLimitDecision

export const limitAddresses = (policy: RateLimitPolicy, trusted: TrustedProxies): TakeByAddress => {
  const limiter = new RateLimiter(policy)
  return (exchange, now) => {
    return limiter.take(addressRateLimitKey(addressOf(exchange, trusted)), now)
  }
}

/** Returns the error for an address whose bucket is empty. */
export const tooMany = (name: RateLimitName, decision: RateLimitDecision, message: string): Refusal =>
  new Refusal({
    code: "rate_limited",
    message,
    headers: { ...rateLimitHeaders(name, decision), "retry-after": String(decision.retryAfterSeconds) },
  })
