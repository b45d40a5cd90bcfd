import { describe, expect, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import type { TrickyStorage } from "./support/drivers.ts"
import { chunkOf, content, itemsOf, LIMIT, manifestOf, onTricky } from "./support/onTricky.ts"

describe("damage", () => {
  const damaged = (name: string, damage: (storage: TrickyStorage) => void) =>
    it.effect(`${name}: BlobCorrupt`, () =>
      onTricky((store, storage) =>
        Effect.gen(function* () {
          yield* store.put("a/b", content, LIMIT)
          damage(storage)
          const read = Effect.flatMap(store.open("a/b"), (opened) => Stream.runDrain(opened.content))
          expect(yield* Effect.flip(read)).toMatchObject({ _tag: "BlobCorrupt", key: "a/b" })
        }),
      ),
    )
  const change = (key: string, storage: TrickyStorage, by: (bytes: Uint8Array) => Uint8Array) =>
    storage.items.set(key, by(Uint8Array.from(storage.items.get(key)!)))
  const replaceText = (storage: TrickyStorage, from: RegExp, to: string) =>
    change(manifestOf(storage), storage, (old) => Buffer.from(Buffer.from(old).toString().replace(from, to)))

  damaged("a bit of a chunk", (storage) => change(chunkOf(storage, 1), storage, (old) => old.with(500, old[500]! ^ 1)))
  damaged("a chunk cut short", (storage) => change(chunkOf(storage, 2), storage, (old) => old.subarray(0, 10)))
  damaged("a chunk lost", (storage) => storage.items.delete(chunkOf(storage, 2)))
  damaged("two chunks swapped", (storage) => {
    const [one, two] = [storage.items.get(chunkOf(storage, 0))!, storage.items.get(chunkOf(storage, 1))!]
    storage.items.set(chunkOf(storage, 0), two).set(chunkOf(storage, 1), one)
  })
  damaged("a manifest cut short", (storage) => change(manifestOf(storage), storage, (old) => old.subarray(0, 50)))
  damaged("a manifest emptied", (storage) => change(manifestOf(storage), storage, () => new Uint8Array()))
  damaged("a length changed", (storage) => replaceText(storage, /"bytes":2500/, '"bytes":2400'))
  damaged("a length changed by more than a chunk", (storage) => replaceText(storage, /"bytes":2500/, '"bytes":1500'))
  damaged("a SHA-256 changed", (storage) => replaceText(storage, /"sha256":"../, '"sha256":"zz'))
  damaged("another SHA-256", (storage) => replaceText(storage, /"sha256":"[^"]*/, `"sha256":"${"0".repeat(64)}`))

  it.effect("detected only by the SHA-256 of the whole blob: the last chunk is not emitted", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        replaceText(storage, /"sha256":"[^"]*/, `"sha256":"${"0".repeat(64)}`)
        const { content: reading } = yield* store.open("a/b")
        let read = 0
        const all = Stream.runForEach(reading, (chunk) => Effect.sync(() => void (read += chunk.length)))
        expect((yield* Effect.flip(all))._tag).toBe("BlobCorrupt")
        expect(read).toBe(2000)
      }),
    ),
  )

  it.effect("a range reports damage if it touches a damaged chunk", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        change(chunkOf(storage, 1), storage, (old) => old.with(500, old[500]! ^ 1))
        const read = (offset: number) =>
          Effect.flatMap(store.open("a/b", { offset, length: 10 }), (opened) => Stream.runDrain(opened.content))
        expect((yield* Effect.flip(read(1000)))._tag).toBe("BlobCorrupt")
        yield* read(0)
        yield* read(2000)
      }),
    ),
  )

  it.effect("its manifest replaced between open and read: the opened blob is read, or nothing", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        const opened = yield* store.open("a/b", { offset: 1000, length: 10 })
        const manifest = storage.items.get(manifestOf(storage))!
        const written = chunkOf(storage, 1).replace(/^.*chunk-(.*)-1$/, "$1")
        const other = Buffer.from(Buffer.from(manifest).toString().replace(written, "another"))
        storage.items.set(manifestOf(storage), other)
        // The chunks are the ones that the manifest named on open.
        expect((yield* Stream.runCollect(opened.content))[0]).toHaveLength(10)
        storage.items.delete(chunkOf(storage, 1))
        expect((yield* Effect.flip(Stream.runDrain(opened.content)))._tag).toBe("BlobUnavailable")
      }),
    ),
  )

  it.effect("removed while being read: BlobUnavailable, not damage", () =>
    onTricky((store) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        const opened = yield* store.open("a/b")
        yield* store.remove("a")
        expect((yield* Effect.flip(Stream.runDrain(opened.content)))._tag).toBe("BlobUnavailable")
      }),
    ),
  )

  it.effect("a damaged blob can be removed", () =>
    onTricky((store, storage) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        storage.items.set(manifestOf(storage), Buffer.from("?"))
        yield* store.remove("a/b")
        expect(itemsOf(storage)).toEqual([])
      }),
    ),
  )
})
