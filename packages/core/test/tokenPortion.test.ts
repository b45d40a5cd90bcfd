import { assert, describe, it } from "@effect/vitest"
import { TokenPortion } from "@kiln/core/effect"
import { StoreUnavailable } from "@kiln/core/domain"
import { type BucketRequest, RateLimitStore } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"
import { Clock, Effect, Exit, Fiber, type Scope } from "effect"
import { TestClock } from "effect/testing"

const policy = { perMinute: 60, burst: 40 }

/** A portion of a bucket of forty tokens, the requests that were sent, and what happens to the next one. */
const open = Effect.gen(function* () {
  const store = yield* RateLimitStore
  const clock = yield* Clock.Clock
  const requests: Array<BucketRequest> = []
  const state: { answer: "normal" | "lost"; delayMs: number } = { answer: "normal", delayMs: 0 }
  const watched = RateLimitStore.of({
    takePortions: (asked) =>
      Effect.suspend(() => {
        requests.push(...asked)
        const taking = Effect.delay(store.takePortions(asked), state.delayMs)
        if (state.answer === "normal") return taking
        return Effect.andThen(taking, Effect.fail(new StoreUnavailable({ operation: "takePortions", cause: "lost" })))
      }),
  })
  const portion = new TokenPortion(
    {
      store: watched,
      process: "process",
      scope: yield* Effect.scope,
      now: () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6,
      ttlMs: 10_000,
      usableMs: 9_000,
    },
    "bucket",
  )
  const take = (wanted: number) => portion.exchange(policy, wanted, () => Effect.void)
  const now = Effect.sync(() => Number(clock.monotonicTimeNanosUnsafe()) / 1e6)
  return { portion, requests, state, take, held: Effect.map(now, (at) => portion.held(at)) }
})

const within = <A, E>(test: Effect.Effect<A, E, RateLimitStore | Scope.Scope>) =>
  Effect.provide(Effect.scoped(test), MemoryStores.layer)

describe("a portion of a shared bucket", () => {
  it.effect("is used until it is empty or its time is over", () =>
    within(
      Effect.gen(function* () {
        const { held, portion, take } = yield* open
        assert.strictEqual(yield* held, 0)
        yield* take(10)
        assert.strictEqual(yield* held, 10)
        portion.use()
        assert.strictEqual(yield* held, 9)
        yield* TestClock.adjust(8_999)
        assert.strictEqual(yield* held, 9)
        yield* TestClock.adjust(1)
        assert.deepStrictEqual([yield* held, portion.tokens], [0, 9])
      }),
    ),
  )

  it.effect("gives back its rest with the next request, or at the end", () =>
    within(
      Effect.gen(function* () {
        const { portion, requests, take } = yield* open
        yield* take(10)
        portion.use()
        yield* take(5)
        assert.strictEqual(requests[1]?.unused, 9)
        assert.deepInclude(portion.giveBack(policy), { unused: 5, wanted: 0, bucket: "bucket" })
        assert.isUndefined(portion.giveBack(policy))
      }),
    ),
  )

  it.effect("is asked for once by concurrent callers, also if the first of them is interrupted", () =>
    within(
      Effect.gen(function* () {
        const { held, requests, state, take } = yield* open
        state.delayMs = 100
        const first = yield* Effect.forkChild(take(10))
        const second = yield* Effect.forkChild(take(10))
        yield* TestClock.adjust(50)
        yield* Fiber.interrupt(first)
        yield* TestClock.adjust(50)
        yield* Fiber.join(second)
        assert.deepStrictEqual([requests.length, yield* held], [1, 10])
      }),
    ),
  )

  it.effect("gets a new name after a lost answer, so that a late request cannot end a later portion", () =>
    within(
      Effect.gen(function* () {
        const { held, portion, requests, state, take } = yield* open
        state.answer = "lost"
        assert.isTrue(Exit.isFailure(yield* Effect.exit(take(10))))
        assert.deepStrictEqual([yield* held, portion.answer], [0, undefined])
        state.answer = "normal"
        yield* take(10)
        assert.strictEqual(yield* held, 10)
        assert.notStrictEqual(requests[0]?.process, requests[1]?.process)
      }),
    ),
  )
})
