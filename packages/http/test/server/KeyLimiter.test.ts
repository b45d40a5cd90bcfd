import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { StoreUnavailable } from "@kiln/core/domain"
import { type BucketRequest, RateLimitStore } from "@kiln/core/ports"
import { temporaryDirectory } from "@kiln/service-lab"
import { type KeyLimiter, limitReads, type RateLimitDecision, SharedKeyLimiter } from "../../src/server/rateLimits.ts"

const policy = { perMinute: 60, burst: 30 }

/** A store of one file, the requests it was sent, and whether it answers. */
const openStore = Effect.gen(function* () {
  const data = yield* Effect.acquireRelease(Effect.sync(temporaryDirectory), (held) =>
    Effect.sync(() => held[Symbol.dispose]()),
  )
  const open = Layer.build(SqliteStores.layer({ path: join(data.path, "kiln.db") }))
  const stores = [Context.get(yield* open, RateLimitStore), Context.get(yield* open, RateLimitStore)] as const
  const requests: Array<BucketRequest> = []
  const state = { away: false, slowMs: 0 }
  const watched = (store: RateLimitStore["Service"]) =>
    RateLimitStore.of({
      takePortions: (asked) =>
        Effect.suspend(() => {
          requests.push(...asked)
          if (state.away) return Effect.fail(new StoreUnavailable({ operation: "takePortions", cause: "away" }))
          return Effect.delay(store.takePortions(asked), state.slowMs)
        }),
    })
  return { stores: stores.map(watched), requests, state }
})

const limitersOf = Effect.fnUntraced(function* (stores: ReadonlyArray<RateLimitStore["Service"]>) {
  return yield* Effect.forEach(stores, (store, n) => SharedKeyLimiter.make("create", store, `process ${n}`))
})

const take = (
  limiter: KeyLimiter | undefined,
  key = "key_a",
  wanted = policy,
): Effect.Effect<RateLimitDecision, StoreUnavailable> =>
  Clock.clockWith((clock) => {
    if (limiter === undefined) return Effect.die("no limiter")
    const decision = limiter.take(key, wanted, clock)
    return Effect.isEffect(decision) ? decision : Effect.succeed(decision)
  })

/** Asks all limiters in turn until each refuses, and counts what was allowed. */
const exhaust = Effect.fnUntraced(function* (limiters: ReadonlyArray<KeyLimiter>) {
  let allowed = 0
  for (const limiter of limiters) while ((yield* take(limiter)).allowed) allowed += 1
  return allowed
})

describe("SharedKeyLimiter", () => {
  it.effect("of two processes over a minute, admits the burst and the rate, not twice that", () =>
    Effect.gen(function* () {
      const { stores } = yield* openStore
      const limiters = yield* limitersOf(stores)
      let allowed = 0
      for (let ms = 0; ms < 60_000; ms += 250) {
        allowed += yield* exhaust(limiters)
        yield* TestClock.adjust(250)
      }
      expect(allowed).toBeLessThanOrEqual(90)
      expect(allowed).toBeGreaterThanOrEqual(88)
    }),
  )

  it.effect("a process alone counts down from the burst, and needs few writes", () =>
    Effect.gen(function* () {
      const { requests, stores } = yield* openStore
      const [limiter] = yield* limitersOf(stores)
      for (let left = 29; left >= 0; left--)
        expect(yield* take(limiter)).toMatchObject({ allowed: true, limit: 60, remaining: left, resetSeconds: 1 })
      const refused = yield* take(limiter)
      expect(refused).toEqual({ allowed: false, limit: 60, remaining: 0, resetSeconds: 1, retryAfterSeconds: 1 })
      expect(requests.length).toBeLessThan(12)
      const before = requests.length
      for (let n = 0; n < 50; n++) expect((yield* take(limiter)).allowed).toBe(false)
      expect(requests).toHaveLength(before)
      yield* TestClock.adjust(999)
      expect((yield* take(limiter)).allowed).toBe(false)
      yield* TestClock.adjust(1)
      expect((yield* take(limiter)).allowed).toBe(true)
    }),
  )

  it.effect("a key that polls every two seconds needs one write in a portion's life", () =>
    Effect.gen(function* () {
      const { requests, stores } = yield* openStore
      const [limiter] = yield* limitersOf(stores)
      const read = { perMinute: 3_000, burst: 300 }
      for (let n = 0; n < 29; n++) {
        expect(yield* take(limiter, "key_a", read)).toMatchObject({ allowed: true, remaining: 299 - n })
        yield* TestClock.adjust(2_000)
      }
      expect(requests).toHaveLength(1)
      expect((yield* take(limiter, "key_a", read)).allowed).toBe(true)
      yield* TestClock.adjust(2_000)
      // The rest of the portion counts as used, and has come back a moment later.
      expect((yield* take(limiter, "key_a", read)).remaining).toBeGreaterThanOrEqual(224)
      yield* TestClock.adjust(2_000)
      expect((yield* take(limiter, "key_a", read)).remaining).toBeGreaterThan(290)
      expect(requests).toHaveLength(2)
    }),
  )

  it.effect("concurrent requests of a key share portions", () =>
    Effect.gen(function* () {
      const { requests, state, stores } = yield* openStore
      state.slowMs = 5
      const [limiter] = yield* limitersOf(stores)
      const all = Effect.all(
        Array.from({ length: 50 }, () => take(limiter)),
        { concurrency: "unbounded" },
      )
      const fiber = yield* Effect.forkChild(all)
      for (let n = 0; n < 20; n++) yield* TestClock.adjust(5)
      const decisions = yield* Fiber.join(fiber)
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(30)
      expect(requests.length).toBeLessThan(9)
    }),
  )

  it.effect("keys do not share a bucket, and a key's own limit applies as soon as it is known", () =>
    Effect.gen(function* () {
      const { stores } = yield* openStore
      const [limiter] = yield* limitersOf(stores)
      expect((yield* take(limiter)).remaining).toBe(29)
      expect((yield* take(limiter, "key_b")).remaining).toBe(29)
      expect((yield* take(limiter, "key_a", { perMinute: 60, burst: 2 })).remaining).toBe(1)
      expect((yield* take(limiter, "key_a", { perMinute: 0, burst: 0 })).limit).toBe(0)
    }),
  )

  it.effect("a process that stops returns what it did not use; one that dies loses it for a minute", () =>
    Effect.gen(function* () {
      const { stores } = yield* openStore
      const scope = yield* Scope.make()
      const [stopping] = yield* Scope.provide(limitersOf(stores.slice(0, 1)), scope)
      const [, other] = yield* limitersOf(stores)
      expect((yield* take(stopping)).remaining).toBe(29)
      yield* Scope.close(scope, Exit.void)
      expect((yield* take(other)).remaining).toBe(28)
      const [dying] = yield* limitersOf(stores.slice(0, 1))
      for (let n = 0; n < 8; n++) yield* take(other)
      yield* take(dying)
      const left = yield* exhaust(other === undefined ? [] : [other])
      expect(left).toBeLessThan(20)
      yield* TestClock.adjust(600_000)
      expect(yield* exhaust(other === undefined ? [] : [other])).toBe(30)
    }),
  )

  it.effect("fails while the store is away, and goes on when it is back", () =>
    Effect.gen(function* () {
      const { state, stores } = yield* openStore
      const [limiter] = yield* limitersOf(stores)
      state.away = true
      expect(Exit.isFailure(yield* Effect.exit(take(limiter)))).toBe(true)
      state.away = false
      expect((yield* take(limiter)).remaining).toBe(29)
    }),
  )
})

describe("limitReads", () => {
  it.effect("reads are limited by this process alone while the store is away or slow", () =>
    Effect.gen(function* () {
      const { requests, state, stores } = yield* openStore
      const [shared] = yield* limitersOf(stores)
      const limiter = limitReads(shared ?? (yield* Effect.die("no limiter")))
      state.away = true
      for (let left = 29; left >= 0; left--)
        expect(yield* take(limiter)).toMatchObject({ allowed: true, remaining: left })
      expect((yield* take(limiter)).allowed).toBe(false)
      // The store is not asked again for a while.
      expect(requests).toHaveLength(1)
      state.away = false
      state.slowMs = 10_000
      yield* TestClock.adjust(1_000)
      const fiber = yield* Effect.forkChild(take(limiter))
      yield* TestClock.adjust(250)
      expect((yield* Fiber.join(fiber)).allowed).toBe(true)
      yield* TestClock.adjust(10_000)
      state.slowMs = 0
      expect(yield* take(limiter)).toMatchObject({ allowed: true, remaining: 29 })
    }),
  )
})
