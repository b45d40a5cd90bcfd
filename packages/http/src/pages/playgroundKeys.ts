import * as Effect from "effect/Effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type { KeyLimits } from "@kiln/core/domain"
import { projectAskedFor } from "@kiln/core/effect"
import { IdGenerator, KeyDirectory } from "@kiln/core/ports"
import type { OfferedKinds } from "../handlers/offerKinds.ts"
import { newKey } from "../newKey.ts"
import { readJsonObject } from "../server/body.ts"
import { jsonReply, Refusal } from "../server/Exchange.ts"
import type { Handler, Route } from "../server/app.ts"
import { addressOf } from "../server/limitAddresses.ts"
import { addressRateLimitKey, type TrustedProxies } from "../wire/ClientAddress.ts"
import { AliveKeys } from "./AliveKeys.ts"

/** How long a key of the playground works. */
const lifetimeMs = 3_600_000
/** How long an expired key is kept for the operator's list. */
const keptMs = 24 * 3_600_000
/** Pause between two removals of expired keys. */
const pruneEveryMs = 3_600_000
/** Maximum number of working keys of one client address. */
const mostOfAddress = 20
/** Maximum number of working keys that this process issued. */
const mostOfAll = 1_000

/** A person tries things; a program gets a key of its own. */
const limits: KeyLimits = {
  create: { perMinute: 20, burst: 10 },
  upload: { perMinute: 20, burst: 10 },
  read: { perMinute: 600, burst: 100 },
  delete: { perMinute: 60, burst: 30 },
}

/** The project of all keys that the playground issues. It has a queue, turns and caps like any other. */
const projectId = projectAskedFor("playground")

const tooManyKeys =
  "Too many keys of the playground work at the moment. Use one of them, or wait for the number of seconds in Retry-After."

/**
 * Issues sandbox keys to visitors of the playground: `POST /playground/key` with `{}`. A key expires after an hour, and a client
 * address has at most 20 that work. The JSON content type keeps other sites from asking in a visitor's name.
 */
export const playgroundKeyRoute = (
  offers: OfferedKinds,
  trusted: TrustedProxies,
): Effect.Effect<Route, never, KeyDirectory | IdGenerator> =>
  Effect.gen(function* () {
    const directory = yield* KeyDirectory
    const ids = yield* IdGenerator
    const alive = new AliveKeys({ lifetimeMs, mostOfAddress, mostOfAll })
    const scopes = [...new Set([...offers.values()].map(({ kind }) => kind.keyScope))]

    let prunedAt = -Infinity
    const prune = (now: number) => {
      if (now - prunedAt < pruneEveryMs) return Effect.void
      prunedAt = now
      return directory.pruneKeys(projectId, keptMs)
    }

    const issue = Effect.fnUntraced(function* (now: number) {
      yield* prune(now)
      const wish = { projectId, mode: "test", scopes, name: "playground", expiresAt: now + lifetimeMs, limits } as const
      const { key, record } = yield* newKey(wish).pipe(
        Effect.provideService(IdGenerator, ids),
        Effect.provide(SecureRandom.layerWebCrypto),
      )
      if ((yield* directory.createKey(record)) === undefined) {
        // Of two concurrent calls, one creates the project and the other finds it.
        yield* directory.createProject({ id: projectId, name: "playground" })
        if ((yield* directory.createKey(record)) === undefined)
          return yield* new Refusal({
            code: "service_unavailable",
            message: `The project name "playground" belongs to a project with another id. Rename it, or set KILN_PLAYGROUND=off.`,
          })
      }
      return { key, expiresAt: now + lifetimeMs }
    })

    const handle: Handler = (exchange, _, clock) =>
      Effect.flatMap(readJsonObject(exchange), () => {
        const now = clock.currentTimeMillisUnsafe()
        const from = addressOf(exchange, trusted)
        const address = addressRateLimitKey(from)
        const waitMs = alive.take(address, now)
        if (waitMs > 0)
          return Effect.fail(
            new Refusal({
              code: "rate_limited",
              message: tooManyKeys,
              headers: { "retry-after": String(Math.ceil(waitMs / 1_000)) },
            }),
          )
        return issue(now).pipe(
          Effect.mapError((error) =>
            error._tag === "StoreUnavailable" ? new Refusal({ code: "service_unavailable", cause: error }) : error,
          ),
          Effect.tapError(() => Effect.sync(() => alive.giveBack(address))),
          Effect.map(({ expiresAt, key }) => jsonReply(201, { key, expires_at: new Date(expiresAt).toISOString() })),
        )
      })
    return { method: "POST", path: "/playground/key", handle }
  })
