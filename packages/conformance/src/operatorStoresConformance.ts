import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { keptMinutes, MinuteHistory, OperatorTokens } from "@kiln/core/ports"
import { advance } from "./arrange.ts"

const idOf = (n: number) => `tok_0000000000000000000000000${n}` as const

const create = (n: number, expiresAt: number | null = null) =>
  Effect.flatMap(OperatorTokens, (tokens) =>
    tokens.createToken({ id: idOf(n), name: `person ${n}`, roles: ["view"], secretHash: `hash${n}`, expiresAt }),
  )

/** Declares the tests of `OperatorTokens` and `MinuteHistory`. `layer` opens an empty store in virtual time. */
export const operatorStoresConformance = <E>(layer: Layer.Layer<OperatorTokens | MinuteHistory, E>): void => {
  const test = (name: string, run: Effect.Effect<unknown, unknown, OperatorTokens | MinuteHistory>) =>
    it.effect(name, () => Effect.provide(run, layer))

  test(
    "a token is found by its secret until it expires or is revoked, and stays in the list",
    Effect.gen(function* () {
      const tokens = yield* OperatorTokens
      const made = yield* create(1)
      expect(made).toMatchObject({ id: idOf(1), name: "person 1", roles: ["view"], expiresAt: null, revokedAt: null })
      yield* create(2, made.createdAt + 1_000)
      expect(yield* tokens.findToken("hash1")).toEqual(made)
      expect(yield* tokens.findToken("hash3")).toBeUndefined()
      yield* advance(999)
      expect((yield* tokens.findToken("hash2"))?.id).toBe(idOf(2))
      yield* advance(1)
      expect(yield* tokens.findToken("hash2")).toBeUndefined()

      const revoked = yield* tokens.revokeToken(idOf(1))
      expect(revoked?.revokedAt).not.toBeNull()
      expect(yield* tokens.findToken("hash1")).toBeUndefined()
      yield* advance(5)
      expect(yield* tokens.revokeToken(idOf(1))).toEqual(revoked)
      expect(yield* tokens.revokeToken(idOf(9))).toBeUndefined()
      expect((yield* tokens.listTokens).map(({ id }) => id)).toEqual([idOf(1), idOf(2)])
    }),
  )

  test(
    "of several processes, one records a minute",
    Effect.gen(function* () {
      const history = yield* MinuteHistory
      const written = yield* Effect.forEach([1, 2, 3, 4], (n) => history.writeMinute({ n }), {
        concurrency: "unbounded",
      })
      expect(written.filter(Boolean)).toHaveLength(1)
      expect(yield* history.listMinutes(120_000)).toHaveLength(1)
    }),
  )

  test(
    "minutes come oldest first, and old ones are removed",
    Effect.gen(function* () {
      const history = yield* MinuteHistory
      for (const n of [0, 1, 2]) {
        expect(yield* history.writeMinute({ n, kinds: ["a"] })).toBe(true)
        yield* advance(60_000)
      }
      const all = yield* history.listMinutes(3_600_000)
      expect(all.map(({ figures }) => figures)).toEqual([0, 1, 2].map((n) => ({ n, kinds: ["a"] })))
      expect(all.map(({ at }) => at - (all[0]?.at ?? 0))).toEqual([0, 60_000, 120_000])
      expect(all.every(({ at }) => at % 60_000 === 0)).toBe(true)
      expect((yield* history.listMinutes(150_000)).map(({ figures }) => figures["n"])).toEqual([1, 2])

      yield* advance((keptMinutes - 2) * 60_000)
      yield* history.writeMinute({ n: 9 })
      const kept = yield* history.listMinutes(1e12)
      expect(kept.map(({ figures }) => figures["n"])).toEqual([2, 9])
    }),
  )
}
