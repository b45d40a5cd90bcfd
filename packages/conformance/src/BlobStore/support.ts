import { type BlobRange, BlobStore } from "@kiln/core/ports"
import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

/** Adds one test, on a store of its own. */
export type BlobTest = (name: string, run: Effect.Effect<void, unknown, BlobStore>) => void

export const blobTester =
  (layer: Layer.Layer<BlobStore, unknown>): BlobTest =>
  (name, run) =>
    it.effect(name, () => Effect.provide(run, Layer.fresh(layer)))

export const KIB = 1024
export const MIB = 1024 * KIB

/** More than any blob of this suite. */
export const NO_LIMIT = { maxBytes: 64 * MIB }

/** Bytes without a pattern that a wrong offset could hide in; the same for the same seed. */
export const noise = (length: number, seed = 1): Uint8Array => {
  const bytes = new Uint8Array(length)
  let state = seed * 2_654_435_761 + 1
  for (let index = 0; index < length; index++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    bytes[index] = state
  }
  return bytes
}

/** Streams one chunk at a time, each on demand. */
export const inChunks = (bytes: Uint8Array, chunkBytes: number): Stream.Stream<Uint8Array> =>
  Stream.unfold(0, (position) =>
    Effect.sync(() =>
      position < bytes.length
        ? ([bytes.slice(position, position + chunkBytes), position + chunkBytes] as const)
        : undefined,
    ),
  )

export const collect = <E>(content: Stream.Stream<Uint8Array, E>): Effect.Effect<Uint8Array, E> =>
  Effect.map(Stream.runCollect(content), (chunks) => new Uint8Array(Buffer.concat([...chunks])))

export const putBytes = Effect.fnUntraced(function* (key: string, bytes: Uint8Array) {
  const store = yield* BlobStore
  return yield* store.put(key, inChunks(bytes, 64 * KIB), NO_LIMIT)
})

export const readBytes = Effect.fnUntraced(function* (key: string, range?: BlobRange) {
  const store = yield* BlobStore
  const { content } = yield* store.open(key, range)
  return yield* collect(content)
})

export const listKeys = Effect.fnUntraced(function* (prefix: string) {
  const store = yield* BlobStore
  return [...(yield* Stream.runCollect(store.list(prefix)))].sort()
})

/** Compares without printing megabytes. */
export const expectSameBytes = (actual: Uint8Array, expected: Uint8Array): void => {
  expect(actual.length).toBe(expected.length)
  expect(Buffer.compare(actual, expected)).toBe(0)
}

/** The key is of the form `root/…`. */
export const expectNothingAt = Effect.fnUntraced(function* (key: string) {
  const store = yield* BlobStore
  const error = yield* Effect.flip(store.open(key))
  expect(error._tag).toBe("BlobNotFound")
  const [root = key] = key.split("/")
  expect(yield* listKeys(root)).not.toContain(key)
})
