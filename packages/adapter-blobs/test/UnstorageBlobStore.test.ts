import { UnstorageBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { describe, expect, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Stream } from "effect"
import { createStorage } from "unstorage"
import { bytes, content, itemsOf, LIMIT, manifestOf, onTricky } from "./support/onTricky.ts"

describe("items", () => {
  it.effect("a range fetches only the chunks it touches", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        const chunksRead = (offset: number, length: number) =>
          Effect.gen(function* () {
            storage.reads.length = 0
            const opened = yield* store.open("a/b", { offset, length })
            yield* Stream.runDrain(opened.content)
            return storage.reads.flatMap((key) => /chunk-.*-(\d+)$/.exec(key)?.[1] ?? [])
          })
        expect(yield* chunksRead(0, 1000)).toEqual(["0"])
        expect(yield* chunksRead(999, 2)).toEqual(["0", "1"])
        expect(yield* chunksRead(1000, 1000)).toEqual(["1"])
        expect(yield* chunksRead(2499, 1)).toEqual(["2"])
        expect(yield* chunksRead(2500, 1)).toEqual([])
        expect(yield* chunksRead(100, 0)).toEqual([])
      }),
    ),
  )

  it.effect("no items stay behind when the source fails or is too long, or when the put is interrupted", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* Effect.flip(store.put("a/b", Stream.concat(content, Stream.fail("reset")), LIMIT))
        expect(itemsOf(storage)).toEqual([])
        yield* Effect.flip(store.put("a/b", content, { maxBytes: bytes.length - 1 }))
        expect(itemsOf(storage)).toEqual([])
        const waiting = yield* Deferred.make<void>()
        const stalled = Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(waiting, undefined), Effect.never))
        const fiber = yield* Effect.forkChild(store.put("a/b", Stream.concat(content, stalled), LIMIT))
        yield* Deferred.await(waiting)
        expect(itemsOf(storage).length).toBe(2)
        yield* Fiber.interrupt(fiber)
        expect(itemsOf(storage)).toEqual([])
      }),
    ),
  )

  it.effect("interruption waits for the write in progress, and removes it again", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const { promise, resolve } = Promise.withResolvers<void>()
        storage.tricks.set = (key, value) => {
          Effect.runSync(Deferred.succeed(begun, undefined))
          return promise.then(() => storage.items.set(key, value))
        }
        const fiber = yield* Effect.forkChild(store.put("a/b", content, LIMIT))
        yield* Deferred.await(begun)
        fiber.interruptUnsafe()
        resolve()
        expect(Exit.isFailure(yield* Fiber.await(fiber))).toBe(true)
        expect(itemsOf(storage)).toEqual([])
      }),
    ),
  )

  it.effect("leftovers of a killed put are not readable, not listed, and deleted with their prefix", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b/1", content, LIMIT)
        storage.items.delete(manifestOf(storage))
        expect((yield* Effect.flip(store.open("a/b/1")))._tag).toBe("BlobNotFound")
        expect(yield* Stream.runCollect(store.list("a"))).toEqual([])
        expect(itemsOf(storage)).toHaveLength(3)
        yield* store.remove("a/b")
        expect(itemsOf(storage)).toEqual([])
      }),
    ),
  )

  it.effect("blobs written with another chunk length stay readable", () =>
    Effect.gen(function* () {
      const storage = createStorage()
      const over = (chunkBytes: number) => Effect.provide(BlobStore, UnstorageBlobStore.layer({ storage, chunkBytes }))
      yield* (yield* over(700)).put("a/b", content, LIMIT)
      const opened = yield* (yield* over(1024)).open("a/b", { offset: 650, length: 800 })
      expect(Buffer.concat([...(yield* Stream.runCollect(opened.content))])).toEqual(
        Buffer.from(bytes.subarray(650, 1450)),
      )
    }),
  )

  it.effect("invalid arguments are defects", () =>
    onTricky((store) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        for (const verb of [
          store.put("a/c", content, { maxBytes: Number.NaN }),
          store.open("a/b", { offset: -1 }),
          store.open("a/b", { offset: 0, length: 0.5 }),
        ]) {
          const exit = yield* Effect.exit<unknown, unknown, never>(verb)
          expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
        }
      }),
    ),
  )
})
