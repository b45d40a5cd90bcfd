import { createHash } from "node:crypto"
import { IncomingMessage, ServerResponse } from "node:http"
import { Socket } from "node:net"
import { assert, describe, it } from "@effect/vitest"
import { formatApiKey } from "@kiln/core/domain"
import { type ApiKeyRecord, KeyDirectory } from "@kiln/core/ports"
import { Clock, Context, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { makeAuthenticate } from "../../src/server/admission.ts"
import { asStep, Exchange } from "../../src/server/Exchange.ts"
import { NodeSource } from "../../src/server/NodeSource.ts"
import { parseTrustedProxies } from "../../src/wire/ClientAddress.ts"

const secret = formatApiKey("test", new Uint8Array(32).fill(7))
const unknown = formatApiKey("test", new Uint8Array(32).fill(8))
const hashOf = (key: string) => createHash("sha256").update(key).digest("hex")

const exchangeWith = (...authorization: ReadonlyArray<string>): Exchange => {
  const source = new IncomingMessage(new Socket())
  source.rawHeaders = authorization.flatMap((value) => ["Authorization", value])
  // Node fills this in from the parser.
  for (const value of authorization) (source.headersDistinct["authorization"] ??= []).push(value)
  return new Exchange("req_x", new NodeSource(source, new ServerResponse(source)))
}

class Fake extends Context.Service<
  Fake,
  {
    record: ApiKeyRecord
    readonly lookups: Array<string>
    readonly touched: Array<{ readonly keyId: string; readonly usedAt: number }>
  }
>()("test/Fake") {
  static readonly layer = Layer.sync(Fake, () => ({
    record: {
      id: "key_1",
      projectId: "prj_1",
      mode: "test",
      scopes: ["audio.create"],
      name: null,
      createdAt: 0,
      expiresAt: null,
      revokedAt: null,
      lastUsedAt: null,
      limits: {},
    } satisfies ApiKeyRecord,
    lookups: [],
    touched: [],
  }))
}

/** A directory that knows one key; nothing else of it is used here. */
const directory = Layer.effect(
  KeyDirectory,
  Effect.map(Fake, (fake) =>
    KeyDirectory.of({
      createProject: () => Effect.die("unused"),
      disableProject: () => Effect.die("unused"),
      listProjects: Effect.die("unused"),
      createKey: () => Effect.die("unused"),
      createFirstKey: () => Effect.die("unused"),
      listKeys: Effect.die("unused"),
      limitKey: () => Effect.die("unused"),
      revokeKey: () => Effect.die("unused"),
      rotateKey: () => Effect.die("unused"),
      pruneKeys: () => Effect.die("unused"),
      identifyKey: () => Effect.die("unused"),
      findKey: (hash) =>
        Effect.sync(() => {
          fake.lookups.push(hash)
          return hash === hashOf(secret) ? fake.record : undefined
        }),
      touchKeys: (uses) => Effect.sync(() => void fake.touched.push(...uses)),
    }),
  ),
)
const layer = directory.pipe(Layer.provideMerge(Fake.layer))

const proxies = parseTrustedProxies("")
const start = makeAuthenticate({
  trustedProxies: proxies.ok ? proxies.proxies : assert.fail("no proxies"),
  failures: { perMinute: 30, burst: 30 },
})
const step = (authenticate: Effect.Success<typeof start>, exchange: Exchange) =>
  Clock.clockWith((clock) => asStep(authenticate(exchange, clock)))
const code = (authenticate: Effect.Success<typeof start>, ...authorization: ReadonlyArray<string>) =>
  Effect.match(step(authenticate, exchangeWith(...authorization)), {
    onSuccess: (principal) => principal.keyId as string,
    onFailure: (refusal) => refusal.code as string,
  })

describe("authentication", () => {
  it.effect(
    "distinguishes missing, malformed and unknown keys from valid ones, without looking up malformed keys",
    () =>
      Effect.gen(function* () {
        const fake = yield* Fake
        const authenticate = yield* start
        assert.strictEqual(yield* code(authenticate), "missing_api_key")
        for (const bad of ["Basic eDp5", "Bearer", "Bearer x", `Bearer ${secret.slice(0, -1)}0`, `Bearer ${secret} x`])
          assert.strictEqual(yield* code(authenticate, bad), "invalid_api_key")
        assert.strictEqual(yield* code(authenticate, `Bearer ${secret}`, `Bearer ${secret}`), "invalid_api_key")
        assert.deepStrictEqual(fake.lookups, [])
        assert.strictEqual(yield* code(authenticate, `Bearer ${unknown}`), "invalid_api_key")
        assert.strictEqual(yield* code(authenticate, `bEARER ${secret}`), "key_1")
        assert.deepStrictEqual(fake.lookups, [hashOf(unknown), hashOf(secret)])
      }).pipe(Effect.scoped, Effect.provide(layer)),
  )

  it.effect("caches a valid key for less than 3 s, so a revocation works within 5 s", () =>
    Effect.gen(function* () {
      const fake = yield* Fake
      const authenticate = yield* start
      const ask = code(authenticate, `Bearer ${secret}`)
      yield* ask
      yield* TestClock.adjust(2_999)
      assert.strictEqual(yield* ask, "key_1")
      assert.strictEqual(fake.lookups.length, 1)
      fake.record = { ...fake.record, revokedAt: 2_999 }
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* ask, "invalid_api_key")
      assert.strictEqual(fake.lookups.length, 2)
    }).pipe(Effect.scoped, Effect.provide(layer)),
  )

  it.effect("refuses a cached key as soon as it expires", () =>
    Effect.gen(function* () {
      const fake = yield* Fake
      fake.record = { ...fake.record, expiresAt: 1_000 }
      const authenticate = yield* start
      yield* TestClock.adjust(999)
      assert.strictEqual(yield* code(authenticate, `Bearer ${secret}`), "key_1")
      yield* TestClock.adjust(1)
      assert.strictEqual(yield* code(authenticate, `Bearer ${secret}`), "invalid_api_key")
    }).pipe(Effect.scoped, Effect.provide(layer)),
  )

  it.effect("never caches unknown keys, so a new key works immediately", () =>
    Effect.gen(function* () {
      const fake = yield* Fake
      const authenticate = yield* start
      yield* code(authenticate, `Bearer ${unknown}`)
      yield* code(authenticate, `Bearer ${unknown}`)
      assert.strictEqual(fake.lookups.length, 2)
    }).pipe(Effect.scoped, Effect.provide(layer)),
  )

  it.effect("returns 429 from the 31st failure on, never for a valid key, and 401 again later", () =>
    Effect.gen(function* () {
      const authenticate = yield* start
      for (let n = 0; n < 30; n++) assert.strictEqual(yield* code(authenticate, "Bearer x"), "invalid_api_key")
      assert.strictEqual(yield* code(authenticate, "Bearer x"), "rate_limited")
      assert.strictEqual(yield* code(authenticate, `Bearer ${unknown}`), "rate_limited")
      assert.strictEqual(yield* code(authenticate), "missing_api_key")
      assert.strictEqual(yield* code(authenticate, `Bearer ${secret}`), "key_1")
      yield* TestClock.adjust(2_000)
      assert.strictEqual(yield* code(authenticate, "Bearer x"), "invalid_api_key")
    }).pipe(Effect.scoped, Effect.provide(layer)),
  )

  it.effect("records uses in batches, at most once a minute per key", () =>
    Effect.gen(function* () {
      const fake = yield* Fake
      const authenticate = yield* start
      const ask = code(authenticate, `Bearer ${secret}`)
      yield* ask
      yield* ask
      assert.deepStrictEqual(fake.touched, [])
      yield* TestClock.adjust(10_000)
      assert.deepStrictEqual(fake.touched, [{ keyId: "key_1", usedAt: 0 }])
      yield* ask
      yield* TestClock.adjust(49_999)
      yield* ask
      yield* TestClock.adjust(10_000)
      assert.strictEqual(fake.touched.length, 1)
      yield* ask
      yield* TestClock.adjust(10_000)
      assert.deepStrictEqual(fake.touched[1], { keyId: "key_1", usedAt: 69_999 })
    }).pipe(Effect.scoped, Effect.provide(layer)),
  )
})
