import { UnstorageBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { type TrickyStorage, trickyStorage } from "./support/drivers.ts"
import { chunkOf, content, itemsOf, LIMIT, manifestOf, onTricky } from "./support/onTricky.ts"

describe("a driver that cannot be trusted", () => {
  it.effect("returns errors as values for writes: BlobUnavailable, nothing readable", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        storage.tricks.set = () => new Error("EACCES")
        expect((yield* Effect.flip(store.put("a/b", content, LIMIT)))._tag).toBe("BlobUnavailable")
        expect((yield* Effect.flip(store.open("a/b")))._tag).toBe("BlobNotFound")
      }),
    ),
  )

  it.effect("returns errors as values for reads: BlobUnavailable with that error, not damage and not absence", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        const eio = new Error("EIO")
        const chunk = chunkOf(storage, 1)
        storage.tricks.get = (key) => (key === chunk ? eio : undefined)
        const opened = yield* store.open("a/b")
        expect(yield* Effect.flip(Stream.runDrain(opened.content))).toMatchObject({
          _tag: "BlobUnavailable",
          cause: eio,
        })
        storage.tricks.get = () => eio
        expect(yield* Effect.flip(store.open("a/b"))).toMatchObject({ _tag: "BlobUnavailable", cause: eio })
      }),
    ),
  )

  for (const lost of [0, 1, 2, 3])
    it.effect(`silently loses write ${lost}: BlobUnavailable, and nothing stays behind`, () =>
      onTricky((store, storage) =>
        Effect.gen(function* () {
          let writes = 0
          storage.tricks.set = () => (writes++ === lost ? "lost" : undefined)
          expect((yield* Effect.flip(store.put("a/b", content, LIMIT)))._tag).toBe("BlobUnavailable")
          expect(writes).toBe(lost + 1)
          expect(itemsOf(storage)).toEqual([])
        }),
      ),
    )

  it.effect("stores a manifest but fails to confirm it: BlobUnavailable, and the manifest is removed again", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        const answers: Array<unknown> = [new Error("reset")]
        storage.tricks.get = (key) => (key.endsWith("manifest.json") ? answers.pop() : undefined)
        expect((yield* Effect.flip(store.put("a/b", content, LIMIT)))._tag).toBe("BlobUnavailable")
        expect(answers).toEqual([])
        expect(itemsOf(storage)).toEqual([])
      }),
    ),
  )

  it.effect("lists chunks late: they are removed anyway", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        storage.tricks.keys = (keys) => keys.filter((key) => !key.includes("chunk"))
        yield* store.remove("a")
        expect(itemsOf(storage)).toEqual([])
      }),
    ),
  )

  it.effect("writes partially: BlobUnavailable", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        storage.tricks.set = (key, value) => {
          storage.items.set(key, value.subarray(0, value.length - 1))
          return "done"
        }
        expect((yield* Effect.flip(store.put("a/b", content, LIMIT)))._tag).toBe("BlobUnavailable")
      }),
    ),
  )

  it.effect("ignores removals: BlobUnavailable", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        for (const ignored of [manifestOf(storage), chunkOf(storage, 1)]) {
          storage.tricks.remove = (key) => (key === ignored ? new Error("EPERM") : undefined)
          expect((yield* Effect.flip(store.remove("a")))._tag).toBe("BlobUnavailable")
          expect(itemsOf(storage)).toContain(ignored)
        }
        storage.tricks.remove = undefined
        yield* store.remove("a")
        expect(itemsOf(storage)).toEqual([])
      }),
    ),
  )

  it.effect("silently removes nothing, at the blob's own key too", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        storage.tricks.remove = () => "ignored"
        expect((yield* Effect.flip(store.remove("a/b")))._tag).toBe("BlobUnavailable")
      }),
    ),
  )

  it.effect("lists one page only: removal is not confirmed", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        for (const key of ["a/1", "a/2", "a/3"]) yield* store.put(key, content, LIMIT)
        storage.tricks.keys = (keys) => [...keys].sort().slice(0, 5)
        expect((yield* Effect.flip(store.remove("a")))._tag).toBe("BlobUnavailable")
        expect((yield* Effect.flip(Stream.runDrain(store.list("a"))))._tag).toBe("BlobUnavailable")
        storage.tricks.keys = undefined
        yield* store.remove("a")
        expect(itemsOf(storage)).toEqual([])
      }),
    ),
  )

  it.effect("returns an error for a listing: BlobUnavailable with that error", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        const down = new Error("down")
        storage.tricks.keys = () => down
        expect((yield* Effect.flip(store.remove("a")))._tag).toBe("BlobUnavailable")
        expect((yield* Effect.flip(Stream.runDrain(store.list("a"))))._tag).toBe("BlobUnavailable")
      }),
    ),
  )

  for (const [what, tricks] of Object.entries<TrickyStorage["tricks"]>({
    "does not list": { keys: () => [] },
    "lists one page that includes the last keys": { keys: (keys) => [...keys].toSorted().slice(-1_000) },
    "does not write": { set: () => "read-only" },
    "is unreachable": { get: () => new Error("ECONNREFUSED") },
  }))
    it.effect(`${what}: the store does not start`, () =>
      Effect.gen(function* () {
        const storage = trickyStorage()
        Object.assign(storage.tricks, tricks)
        const error = yield* Effect.flip(Effect.provide(BlobStore, UnstorageBlobStore.layer({ storage })))
        expect(error).toMatchObject({ _tag: "BlobUnavailable", operation: "start" })
      }),
    )
})
