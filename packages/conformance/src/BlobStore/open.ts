import { type BlobRange, BlobStore } from "@kiln/core/ports"
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type BlobTest, expectSameBytes, KIB, MIB, noise, putBytes, readBytes } from "./support.ts"

const BYTES = 2 * MIB + 300 * KIB + 5

/** Around what an adapter may cut its bytes at. */
const ranges: ReadonlyArray<readonly [name: string, range: BlobRange]> = [
  ["all, with explicit offset and length", { offset: 0, length: BYTES }],
  ["the first byte", { offset: 0, length: 1 }],
  ["the start", { offset: 0, length: 100 }],
  ["the middle", { offset: 700 * KIB + 3, length: 1234 }],
  ["the last byte", { offset: BYTES - 1, length: 1 }],
  ["the rest", { offset: BYTES - 100 }],
  ["all but the first byte", { offset: 1 }],
  ["all but the last byte", { offset: 0, length: BYTES - 1 }],
  ["up to a border of 64 KiB", { offset: 10, length: 64 * KIB - 10 }],
  ["from a border of 64 KiB", { offset: 64 * KIB, length: 64 * KIB }],
  ["across a border of 64 KiB", { offset: 64 * KIB - 1, length: 2 }],
  ["up to a border of 1 MiB", { offset: MIB - 1, length: 1 }],
  ["from a border of 1 MiB", { offset: MIB, length: 1 }],
  ["exactly between two borders of 1 MiB", { offset: MIB, length: MIB }],
  ["across two borders of 1 MiB", { offset: MIB - 1, length: MIB + 2 }],
  ["longer than there is", { offset: BYTES - 10, length: 1000 }],
  ["much longer than there is", { offset: 5, length: Number.MAX_SAFE_INTEGER }],
  ["no length", { offset: 5, length: 0 }],
  ["from the end", { offset: BYTES }],
  ["past the end", { offset: BYTES + 1, length: 10 }],
  ["far past the end", { offset: Number.MAX_SAFE_INTEGER }],
]

export const opensBlobs = (test: BlobTest): void => {
  test(
    "fails for a missing blob",
    Effect.gen(function* () {
      const store = yield* BlobStore
      expect(yield* Effect.flip(store.open("jobs/a/1/output"))).toMatchObject({
        _tag: "BlobNotFound",
        key: "jobs/a/1/output",
      })
      yield* putBytes("jobs/a/1/output", noise(10))
      // A blob has no blob above or below it.
      for (const key of ["jobs/a/1", "jobs/a/1/output/0", "jobs/a/1/outpu", "jobs/a/1/output0"])
        expect((yield* Effect.flip(store.open(key)))._tag).toBe("BlobNotFound")
    }),
  )

  test(
    "reads ranges, and always returns length and SHA-256 of the whole blob",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const bytes = noise(BYTES)
      const written = yield* putBytes("ranges/a", bytes)
      for (const [name, range] of ranges) {
        const opened = yield* store.open("ranges/a", range)
        expect({ bytes: opened.bytes, sha256: opened.sha256 }, name).toEqual(written)
        const expected = bytes.subarray(range.offset, range.offset + (range.length ?? BYTES))
        expectSameBytes(yield* readBytes("ranges/a", range), expected)
      }
    }),
  )

  test(
    "reads ranges of a blob of zero bytes",
    Effect.gen(function* () {
      yield* putBytes("ranges/empty", new Uint8Array())
      for (const range of [{ offset: 0 }, { offset: 0, length: 5 }, { offset: 3 }])
        expect(yield* readBytes("ranges/empty", range)).toHaveLength(0)
    }),
  )

  test(
    "returns content that can be read twice, and by several readers concurrently",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const bytes = noise(400 * KIB)
      yield* putBytes("readers/a", bytes)
      const { content } = yield* store.open("readers/a")
      const sizes = Effect.map(Stream.runCollect(content), (chunks) => Buffer.concat([...chunks]))
      const read = yield* Effect.all([sizes, sizes, sizes], { concurrency: "unbounded" })
      for (const one of read) expectSameBytes(one, bytes)
    }),
  )

  test(
    "returns content that may be read partly or not at all",
    Effect.gen(function* () {
      const store = yield* BlobStore
      yield* putBytes("readers/a", noise(400 * KIB))
      for (let n = 0; n < 50; n++) {
        const { content } = yield* store.open("readers/a")
        if (n % 2 === 0) expect(yield* Stream.runCollect(Stream.take(content, 1))).toHaveLength(1)
      }
      expect(yield* readBytes("readers/a")).toHaveLength(400 * KIB)
    }),
  )
}
