import { createHash } from "node:crypto"
import { BlobStore, markReleasable } from "@kiln/core/ports"
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type BlobTest, expectSameBytes, inChunks, KIB, MIB, NO_LIMIT, noise, putBytes, readBytes } from "./support.ts"

const sha256Of = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

/** Bytes in are bytes out. */
export const putsBlobs = (test: BlobTest): void => {
  test(
    "stores 5 MiB and returns length and SHA-256",
    Effect.gen(function* () {
      const bytes = noise(5 * MIB)
      const info = yield* putBytes("jobs/a/1/output", bytes)
      expect(info).toEqual({ bytes: 5 * MIB, sha256: sha256Of(bytes) })
      expectSameBytes(yield* readBytes("jobs/a/1/output"), bytes)
    }),
  )

  test(
    "stores zero bytes",
    Effect.gen(function* () {
      const store = yield* BlobStore
      expect(yield* store.put("jobs/a", Stream.empty, NO_LIMIT)).toEqual({
        bytes: 0,
        sha256: sha256Of(new Uint8Array()),
      })
      expect((yield* store.open("jobs/a")).bytes).toBe(0)
      expect(yield* readBytes("jobs/a")).toHaveLength(0)
    }),
  )

  test(
    "accepts any division into chunks",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const bytes = noise(200 * KIB + 17)
      const cuts = [7 * KIB, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 1000 * KIB]
      for (const cut of cuts) {
        const key = `cuts/${cut}`
        expect((yield* store.put(key, inChunks(bytes, cut), NO_LIMIT)).sha256).toBe(sha256Of(bytes))
        expectSameBytes(yield* readBytes(key), bytes)
      }
      const small = noise(500)
      const emptyBetween = Stream.flatMap(inChunks(small, 1), (byte) => Stream.make(new Uint8Array(), byte))
      yield* store.put("cuts/bytes", emptyBetween, NO_LIMIT)
      expectSameBytes(yield* readBytes("cuts/bytes"), small)
    }),
  )

  test(
    "copies bytes: a source may reuse its buffer, and a reader may write into its chunks",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const buffer = new Uint8Array(48 * KIB)
      const source = Stream.unfold(0, (n) =>
        Effect.sync(() => (n < 50 ? ([buffer.fill(n), n + 1] as const) : undefined)),
      )
      yield* store.put("copies/a", source, NO_LIMIT)
      buffer.fill(255)
      const expected = Buffer.concat(Array.from({ length: 50 }, (_, n) => new Uint8Array(48 * KIB).fill(n)))
      const { content } = yield* store.open("copies/a")
      yield* Stream.runForEach(content, (chunk) => Effect.sync(() => chunk.fill(254)))
      expectSameBytes(yield* readBytes("copies/a"), expected)
    }),
  )

  test(
    "stores bytes that it may free, and keeps those that it may not",
    Effect.gen(function* () {
      const store = yield* BlobStore
      const chunks = Array.from({ length: 20 }, (_, n) => noise(64 * KIB + n, n + 1).slice())
      const expected = Buffer.concat(chunks)
      const kept = chunks.filter((_, n) => n % 2 === 1)
      for (const chunk of chunks) if (!kept.includes(chunk)) markReleasable(chunk)
      yield* store.put("freed/a", Stream.fromIterable(chunks), NO_LIMIT)
      expectSameBytes(yield* readBytes("freed/a"), expected)
      expect(kept.every((chunk) => chunk.length > 0)).toBe(true)
    }),
  )

  test(
    "stores many concurrently without mixing them up",
    Effect.gen(function* () {
      const blobs = Array.from({ length: 20 }, (_, n) => [`many/${n}/blob`, noise(100 * KIB + n, n + 1)] as const)
      yield* Effect.forEach(blobs, ([key, bytes]) => putBytes(key, bytes), { concurrency: "unbounded" })
      for (const [key, bytes] of blobs) expectSameBytes(yield* readBytes(key), bytes)
    }),
  )

  test(
    "may be repeated, for example after a lost answer",
    Effect.gen(function* () {
      const bytes = noise(100 * KIB)
      const first = yield* putBytes("again/a", bytes)
      expect(yield* putBytes("again/a", bytes)).toEqual(first)
      expectSameBytes(yield* readBytes("again/a"), bytes)
    }),
  )
}
