import { hash } from "node:crypto"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import {
  authorize,
  type Grant,
  jobModeOf,
  type KeyId,
  type KeyLimits,
  parseApiKey,
  type Principal,
  type RateLimitPolicy,
} from "@kiln/core/domain"
import { type ApiKeyRecord, KeyDirectory } from "@kiln/core/ports"
import type { TrustedProxies } from "../wire/ClientAddress.ts"
import { asStep, type Exchange, rateLimitHeaders, type Ready, Refusal } from "./Exchange.ts"
import { limitAddresses, tooMany } from "./limitAddresses.ts"
import { type KeyLimiters, monotonicMs, type RateLimitDecision, type RateLimits } from "./rateLimits.ts"

/** Milliseconds for which a valid key is cached: revocation must take effect everywhere within 5 s. */
const believedForMs = 3_000
/** Milliseconds between two checks of a key that is in use all the time: with the cache, at most 5 s. */
export const confirmKeyMs = 2_000
/** Maximum number of cached keys. */
const maxRemembered = 10_000

interface Remembered {
  readonly principal: Principal
  readonly record: ApiKeyRecord
  readonly lookedUpAt: number
}

/** Identifies the caller of a request, at once if its key is cached. Only valid keys are cached, and only briefly. */
export type Authenticate = (exchange: Exchange, clock: Clock.Clock) => Ready<Principal>

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

  const remember = (keyHash: string, entry: Remembered): void => {
    remembered.delete(keyHash)
    remembered.set(keyHash, entry)
    const oldest = remembered.size > maxRemembered ? remembered.keys().next() : undefined
    if (oldest?.done === false) remembered.delete(oldest.value)
  }

  const accept = (exchange: Exchange, entry: Remembered, now: number): Principal => {
    noteUse(entry.record.id, now)
    exchange.keyLimits = entry.record.limits
    return entry.principal
  }

  const lookUp = Effect.fnUntraced(function* (exchange: Exchange, keyHash: string, now: number) {
    const record = yield* Effect.mapError(
      directory.findKey(keyHash),
      (cause) => new Refusal({ code: "service_unavailable", cause }),
    )
    if (record === undefined || !isUsable(record, now)) {
      remembered.delete(keyHash)
      return yield* failed(exchange, now)
    }
    const entry: Remembered = { principal: principalOf(record), record, lookedUpAt: now }
    remember(keyHash, entry)
    return accept(exchange, entry, now)
  })

  return (exchange, clock) => {
    const bearer = parseBearerToken(exchange.header("authorization"))
    if (bearer.kind === "missing") return Effect.fail(new Refusal({ code: "missing_api_key" }))
    const now = clock.currentTimeMillisUnsafe()
    if (bearer.kind === "malformed") return Effect.fail(failed(exchange, now))
    const keyHash = hash("sha256", bearer.token, "hex")
    const known = remembered.get(keyHash)
    if (known !== undefined && isFresh(known, now) && isUsable(known.record, now)) return accept(exchange, known, now)
    // Invented keys are rejected here, most of them without a query to the store.
    if (parseApiKey(bearer.token) === undefined) return Effect.fail(failed(exchange, now))
    return lookUp(exchange, keyHash, now)
  }
})

/** Rejects invalid credentials: 401, or 429 after too many from one address. */
export const makeRefuseCredentials = (options: AuthenticateOptions, message?: string) => {
  const take = limitAddresses(options.failures, options.trustedProxies)
  return (exchange: Exchange, now: number): Refusal => {
    const decision = take(exchange, now)
    if (decision.allowed) return new Refusal({ code: "invalid_api_key", ...(message !== undefined && { message }) })
    const tooOften =
      "Too many requests with an invalid API key from this address. Wait for the number of seconds in Retry-After."
    return tooMany("authentication", decision, tooOften)
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

/** Minimum interval between updates of a key's last use, in milliseconds. */
const precisionMs = 60_000
const flushIntervalMs = 10_000

/** Records the last use of keys in batches, approximately: it does not delay requests, and may be lost in a crash. */
const trackKeyUses: Effect.Effect<(keyId: KeyId, now: number) => void, never, KeyDirectory | Scope.Scope> = Effect.gen(
  function* () {
    const directory = yield* KeyDirectory
    /** The last recorded or pending use, by key. */
    const noted = new Map<KeyId, number>()
    const due = new Map<KeyId, number>()

    const flush = Effect.suspend(() => {
      const uses = [...due].map(([keyId, usedAt]) => ({ keyId, usedAt }))
      due.clear()
      return uses.length === 0
        ? Effect.void
        : Effect.catchCause(directory.touchKeys(uses), (cause) =>
            Effect.logDebug("could not record the last use of keys", cause),
          )
    })
    const forget = (now: number) => {
      for (const [keyId, at] of noted) if (Math.abs(now - at) >= precisionMs) noted.delete(keyId)
    }
    yield* Effect.addFinalizer(() => flush)
    yield* Effect.forkScoped(
      Effect.gen(function* () {
        while (true) {
          yield* Effect.sleep(flushIntervalMs)
          yield* flush
          yield* Effect.clockWith((clock) => Effect.sync(() => forget(clock.currentTimeMillisUnsafe())))
        }
      }),
    )

    return (keyId, now) => {
      const last = noted.get(keyId)
      if (last !== undefined && Math.abs(now - last) < precisionMs) return
      noted.set(keyId, now)
      due.set(keyId, now)
    }
  },
)

/**
 * Verifies the key again after a slow body, before anything is accepted: the key may have been revoked in the meantime.
 */
export const makeConfirm =
  (authenticate: Authenticate) =>
  (exchange: Exchange, clock: Clock.Clock): Ready<object> =>
    monotonicMs(clock) - exchange.admittedAt < believedForMs / 2 ? stillValid : authenticate(exchange, clock)

const stillValid: object = {}

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

/** The result of parsing the `Authorization` headers of a request. */
type BearerToken =
  | { readonly kind: "missing" }
  | { readonly kind: "malformed" }
  | { readonly kind: "token"; readonly token: string }

// RFC 6750: credentials = "Bearer" 1*SP b64token; RFC 9110: schemes are case-insensitive.
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i

/**
 * Parses the values of the `Authorization` headers, one per header line, trimmed, as an HTTP parser returns them. Two
 * headers, another scheme, or an invalid token are `malformed`, because the intended credentials would have to be guessed.
 */
export const parseBearerToken = (values: ReadonlyArray<string> | undefined): BearerToken => {
  const [value, second] = values ?? []
  if (value === undefined) return { kind: "missing" }
  const token = second === undefined ? BEARER.exec(value)?.[1] : undefined
  return token === undefined ? { kind: "malformed" } : { kind: "token", token }
}
