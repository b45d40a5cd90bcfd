import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { RateLimitStore } from "@kiln/core/ports"
import { advance } from "./arrange.ts"

const policy = { perMinute: 60, burst: 8 }
const token = 60_000

const take = Effect.fnUntraced(function* (bucket: string, process: string, wanted: number, unused = 0) {
  const store = yield* RateLimitStore
  const [taken] = yield* store.takePortions([{ bucket, policy, process, unused, wanted, ttlMs: 10_000 }])
  return taken
})

/** Declares the tests of a `RateLimitStore`. `layer` opens an empty store in virtual time. */
export const rateLimitConformance = <E>(layer: Layer.Layer<RateLimitStore, E>): void => {
  const test = (name: string, run: Effect.Effect<unknown, unknown, RateLimitStore>) =>
    it.effect(name, () => Effect.provide(run, layer))

  test(
    "a portion leaves the bucket, and what is returned comes back",
    Effect.gen(function* () {
      expect(yield* take("a", "one", 3)).toEqual({ tokens: 3, level: 5 * token })
      expect(yield* take("a", "two", 3)).toEqual({ tokens: 3, level: 2 * token })
      expect(yield* take("b", "one", 4)).toEqual({ tokens: 4, level: 4 * token })
      expect(yield* take("a", "one", 0, 2)).toEqual({ tokens: 0, level: 4 * token })
      expect(yield* take("a", "two", 9, 3)).toEqual({ tokens: 4, level: 3 * token })
    }),
  )

  test(
    "a bucket refills by store time, and is full again in the end",
    Effect.gen(function* () {
      for (const wanted of [4, 2, 1, 1]) yield* take("a", "one", wanted)
      expect(yield* take("a", "one", 1)).toEqual({ tokens: 0, level: 0 })
      yield* advance(999)
      expect(yield* take("a", "one", 1)).toEqual({ tokens: 0, level: 999 * 60 })
      yield* advance(1)
      expect(yield* take("a", "one", 1)).toEqual({ tokens: 1, level: 0 })
      yield* advance(60_000)
      expect(yield* take("b", "one", 1)).toEqual({ tokens: 1, level: 7 * token })
      expect(yield* take("a", "two", 1)).toEqual({ tokens: 1, level: 7 * token })
    }),
  )

  test(
    "several buckets at once, each with its own answer",
    Effect.gen(function* () {
      const store = yield* RateLimitStore
      const ask = (bucket: string, wanted: number) => ({ bucket, policy, process: "p", unused: 0, wanted, ttlMs: 1 })
      expect(yield* store.takePortions([ask("b", 2), ask("a", 4), ask("c", 0)])).toEqual([
        { tokens: 2, level: 6 * token },
        { tokens: 4, level: 4 * token },
        { tokens: 0, level: 8 * token },
      ])
      expect(yield* store.takePortions([])).toEqual([])
    }),
  )

  test(
    "of many concurrent processes, all together get no more than the burst",
    Effect.gen(function* () {
      const taken = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => `process ${n}`),
        (process) => take("a", process, 2),
        { concurrency: "unbounded" },
      )
      expect(taken.reduce((sum, portion) => sum + (portion?.tokens ?? 0), 0)).toBe(8)
    }),
  )
}
