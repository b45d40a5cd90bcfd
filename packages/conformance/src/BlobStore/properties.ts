import { createHash } from "node:crypto"
import { BlobStore } from "@kiln/core/ports"
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import fc from "fast-check"
import { type BlobTest, collect, expectNothingAt, expectSameBytes, KIB, noise, putBytes } from "./support.ts"

/** Runs a property in the context of the test. */
const check = <Values extends [unknown, ...Array<unknown>]>(
  runs: number,
  property: (...values: Values) => Effect.Effect<void, unknown, BlobStore>,
  ...arbitraries: { [K in keyof Values]: fc.Arbitrary<Values[K]> }
) =>
  Effect.gen(function* () {
    const context = yield* Effect.context<BlobStore>()
    const run = Effect.runPromiseWith(context)
    yield* Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(...arbitraries, (...values) => run(property(...values))),
        { numRuns: runs },
      ),
    )
  })

export const keepsBytes = (test: BlobTest): void => {
  test(
    "for any chunks and limit: everything is stored, or BlobTooLarge and nothing",
    Effect.suspend(() => {
      let n = 0
      return check(
        60,
        (sizes: ReadonlyArray<number>, slack: number) =>
          Effect.gen(function* () {
            const store = yield* BlobStore
            const key = `property/${n++}/a`
            const chunks = sizes.map((size, index) => noise(size, index + 1))
            const bytes = new Uint8Array(Buffer.concat(chunks))
            const maxBytes = Math.max(0, bytes.length + slack)
            const put = store.put(key, Stream.fromIterable(chunks), { maxBytes })
            if (bytes.length > maxBytes) {
              expect((yield* Effect.flip(put))._tag).toBe("BlobTooLarge")
              return yield* expectNothingAt(key)
            }
            expect(yield* put).toEqual({
              bytes: bytes.length,
              sha256: createHash("sha256").update(bytes).digest("hex"),
            })
            const { content } = yield* store.open(key)
            expectSameBytes(yield* collect(content), bytes)
          }),
        fc.array(fc.oneof(fc.nat(200), fc.nat(70 * KIB)), { maxLength: 12 }),
        fc.integer({ min: -3, max: 3 }),
      )
    }),
  )

  test(
    "any range is the slice of the bytes",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const bytes = noise(1100 * KIB)
      yield* putBytes("property/ranges", bytes)
      const place = fc.oneof(
        fc.nat(bytes.length + 10),
        fc.tuple(fc.nat(18), fc.integer({ min: -2, max: 2 })).map(([n, by]) => Math.max(0, n * 64 * KIB + by)),
      )
      yield* check(
        60,
        (offset: number, length: number | undefined) =>
          Effect.gen(function* () {
            const { content } = yield* store.open("property/ranges", { offset, length })
            expectSameBytes(
              yield* collect(content),
              bytes.subarray(offset, length === undefined ? undefined : offset + length),
            )
          }),
        place,
        fc.option(place, { nil: undefined }),
      )
    }),
  )
}
