import { createHash } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { jobModeOf, type KeyId, parseApiKey, type Principal } from "@kiln/core/domain"
import { type ApiKeyRecord, KeyDirectory } from "@kiln/core/ports"
import { parseBearerToken } from "../wire/BearerToken.ts"
import type { TrustedProxies } from "../wire/ClientAddress.ts"
import type { RateLimitPolicy } from "../wire/RateLimiter.ts"
import type { Exchange } from "./Exchange.ts"
import { trackKeyUses } from "./KeyUses.ts"
import { limitAddresses, tooMany } from "./limitAddresses.ts"
import { Refusal } from "./Refusal.ts"
import { storeUnavailable } from "./unavailable.ts"

/** Milliseconds for which a valid key is cached: revocation must take effect everywhere within 5 s. */
export const believedForMs = 3_000
/** Maximum number of cached keys. */
const maxRemembered = 10_000

interface Remembered {
  readonly principal: Principal
  readonly record: ApiKeyRecord
  readonly lookedUpAt: number
}

/** Identifies the caller of a request. Only valid keys are cached, and only briefly. */
export type Authenticate = (exchange: Exchange) => Effect.Effect<Principal, Refusal>

export interface AuthenticateOptions {
  readonly trustedProxies: TrustedProxies
  /** Limit of failed authentications per client address. */
  readonly failures: RateLimitPolicy
}

/** Authenticates by the API keys in the store. */
export const makeAuthenticate = Effect.fnUntraced(function* (
  options: AuthenticateOptions,
): Effect.fn.Return<Authenticate, never, KeyDirectory | Scope.Scope> {
  const directory = yield* KeyDirectory
  const noteUse = yield* trackKeyUses
  const failed = makeRefuseCredentials(options)
  const remembered = new Map<string, Remembered>()

  const remember = (hash: string, entry: Remembered): void => {
    remembered.delete(hash)
    remembered.set(hash, entry)
    const oldest = remembered.size > maxRemembered ? remembered.keys().next() : undefined
    if (oldest?.done === false) remembered.delete(oldest.value)
  }

  const accept = (entry: Remembered, now: number): Principal => {
    noteUse(entry.record.id, now)
    return entry.principal
  }

  return Effect.fnUntraced(function* (exchange) {
    const bearer = parseBearerToken(exchange.header("authorization"))
    if (bearer.kind === "missing") return yield* new Refusal({ code: "missing_api_key" })
    const now = yield* Clock.currentTimeMillis
    // Most invented keys are rejected here, without a query to the store.
    if (bearer.kind === "malformed" || parseApiKey(bearer.token) === undefined) return yield* failed(exchange, now)
    const hash = createHash("sha256").update(bearer.token).digest("hex")
    const known = remembered.get(hash)
    if (known !== undefined && isFresh(known, now) && isUsable(known.record, now)) return accept(known, now)
    const record = yield* Effect.mapError(directory.findKey(hash), storeUnavailable)
    if (record === undefined || !isUsable(record, now)) {
      remembered.delete(hash)
      return yield* failed(exchange, now)
    }
    const entry: Remembered = { principal: principalOf(record), record, lookedUpAt: now }
    remember(hash, entry)
    return accept(entry, now)
  })
})

/** Rejects invalid credentials: 401, or 429 after too many from one address. */
export const makeRefuseCredentials = (options: AuthenticateOptions) => {
  const take = limitAddresses(options.failures, options.trustedProxies)
  return (exchange: Exchange, now: number): Refusal => {
    const decision = take(exchange, now)
    if (decision.allowed) return new Refusal({ code: "invalid_api_key" })
    const message =
      "Too many requests with an invalid API key from this address. Wait for the number of seconds in Retry-After."
    return tooMany("authentication", decision, message)
  }
}

// A clock that was set back must not extend the cache.
const isFresh = (entry: Remembered, now: number): boolean =>
  now >= entry.lookedUpAt && now - entry.lookedUpAt < believedForMs

const isUsable = (record: ApiKeyRecord, now: number): boolean =>
  record.revokedAt === null && (record.expiresAt === null || now < record.expiresAt)

const principalOf = (record: ApiKeyRecord): Principal => ({
  keyId: record.id satisfies KeyId,
  projectId: record.projectId,
  mode: jobModeOf(record.mode),
  scopes: record.scopes,
})
