import { readFile, rename, truncate, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { bytes, content, drain, EMPTY, LIMIT, onFiles, tree } from "./support/files.ts"

describe("damage on disk", () => {
  const file = (directory: string) => join(directory, "blobs/a/b.blob")
  const change = (directory: string, by: (old: Buffer<ArrayBuffer>) => Uint8Array) =>
    Effect.promise(async () => writeFile(file(directory), by(await readFile(file(directory)))))
  const flip = (at: number) => (old: Buffer<ArrayBuffer>) => {
    old.writeUInt8(old.readUInt8(at) ^ 4, at)
    return old
  }

  for (const at of [0, 65_535, 65_536, 131_072, bytes.length - 1])
    it.effect(`a flipped bit in byte ${at}: BlobCorrupt before the last chunk of a whole read`, () =>
      onFiles((store, directory) =>
        Effect.gen(function* () {
          yield* store.put("a/b", content, LIMIT)
          yield* change(directory, flip(at))
          let read = 0
          const opened = yield* store.open("a/b")
          const all = Stream.runForEach(opened.content, (chunk) =>
            Effect.sync(() => {
              read += chunk.length
            }),
          )
          expect(yield* Effect.flip(all)).toMatchObject({ _tag: "BlobCorrupt", key: "a/b" })
          // A reader that was told the length and waits for that many bytes must not receive them.
          expect(read).toBe(3 * 65_536)
          // A range that covers the whole blob counts as a whole read; parts have no separate digest.
          expect((yield* Effect.flip(drain(store, "a/b", { offset: 0, length: 1e9 })))._tag).toBe("BlobCorrupt")
          yield* drain(store, "a/b", { offset: 1, length: 10 })
        }),
      ),
    )

  it.effect("a flipped bit in a blob of one chunk: no chunk is emitted", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("a/b", Stream.succeed(bytes.slice(0, 65_536)), LIMIT)
        yield* change(directory, flip(0))
        const opened = yield* store.open("a/b")
        const received: Array<Uint8Array> = []
        const all = Stream.runForEach(opened.content, (chunk) => Effect.sync(() => received.push(chunk)))
        expect((yield* Effect.flip(all))._tag).toBe("BlobCorrupt")
        expect(received).toEqual([])
      }),
    ),
  )

  for (const [name, damage] of Object.entries<(old: Buffer<ArrayBuffer>) => Uint8Array>({
    "one byte short": (old) => old.subarray(0, -1),
    "cut in the middle": (old) => old.subarray(0, 100_000),
    "cut to its footer": (old) => old.subarray(-64),
    "cut at the front": (old) => old.subarray(1),
    emptied: () => new Uint8Array(),
    "one byte longer": (old) => Buffer.concat([old, Buffer.of(0)]),
    "without a footer": (old) => old.subarray(0, bytes.length),
    "its length changed": flip(bytes.length + 15),
    "its SHA-256 changed": flip(bytes.length + 20),
    "the checksum of its footer changed": flip(bytes.length + 63),
  }))
    it.effect(`${name}: BlobCorrupt on open, for ranges too`, () =>
      onFiles((store, directory) =>
        Effect.gen(function* () {
          yield* store.put("a/b", content, LIMIT)
          yield* change(directory, damage)
          for (const range of [undefined, { offset: 5, length: 10 }])
            expect(yield* Effect.flip(store.open("a/b", range))).toMatchObject({ _tag: "BlobCorrupt", key: "a/b" })
          yield* store.remove("a/b")
          expect(yield* tree(directory)).toEqual(EMPTY)
        }),
      ),
    )

  it.effect("truncated while being read: BlobCorrupt", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        const opened = yield* store.open("a/b", { offset: 1 })
        const read = Stream.runForEach(opened.content, () => Effect.promise(() => truncate(file(directory), 70_000)))
        expect((yield* Effect.flip(read))._tag).toBe("BlobCorrupt")
      }),
    ),
  )

  for (const range of [undefined, { offset: 0, length: 10 }, { offset: 5 }])
    it.effect(`a large one replaced between open and read: BlobCorrupt, for ${JSON.stringify(range ?? "all")}`, () =>
      onFiles((store, directory) =>
        Effect.gen(function* () {
          const put = (key: string, fill: number) =>
            store.put(key, Stream.succeed(new Uint8Array(100_000).fill(fill)), LIMIT)
          yield* put("a/b", 1)
          // A complete blob of the same length, with a valid footer.
          yield* put("a/other", 2)
          const opened = yield* store.open("a/b", range)
          yield* Effect.promise(() => rename(join(directory, "blobs/a/other.blob"), file(directory)))
          expect(yield* Effect.flip(Stream.runDrain(opened.content))).toMatchObject({ _tag: "BlobCorrupt", key: "a/b" })
          const again = yield* store.open("a/b", range)
          expect((yield* Stream.runCollect(again.content))[0]?.[0]).toBe(2)
        }),
      ),
    )

  it.effect("a small one replaced or removed between open and read: the opened blob is read, and only once", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        for (const [key, fill] of [
          ["a/b", 1],
          ["a/other", 2],
        ] as const)
          yield* store.put(key, Stream.succeed(new Uint8Array(65_536).fill(fill)), LIMIT)
        const opened = yield* store.open("a/b", { offset: 1, length: 10 })
        yield* Effect.promise(() => rename(join(directory, "blobs/a/other.blob"), file(directory)))
        expect(yield* Stream.runCollect(opened.content)).toEqual([new Uint8Array(10).fill(1)])
        expect(yield* Effect.flip(Stream.runDrain(opened.content))).toMatchObject({ _tag: "BlobCorrupt", key: "a/b" })
        const replaced = yield* store.open("a/b")
        yield* store.remove("a/b")
        expect((yield* Stream.runCollect(replaced.content))[0]).toEqual(new Uint8Array(65_536).fill(2))
        expect((yield* Effect.flip(Stream.runDrain(replaced.content)))._tag).toBe("BlobUnavailable")
      }),
    ),
  )

  it.effect("replaced by a longer one while being read: the opened blob is read to its end", () =>
    onFiles((store, directory) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        yield* store.put("a/other", Stream.concat(content, content), LIMIT)
        const opened = yield* store.open("a/b")
        let read = 0
        yield* Stream.runForEach(opened.content, (chunk) =>
          Effect.promise(async () => {
            read += chunk.length
            await rename(join(directory, "blobs/a/other.blob"), file(directory)).catch(() => undefined)
          }),
        )
        expect(read).toBe(bytes.length)
      }),
    ),
  )

  it.effect("removed between open and read: BlobUnavailable; removed while being read: read to its end", () =>
    onFiles((store) =>
      Effect.gen(function* () {
        yield* store.put("a/b", content, LIMIT)
        const opened = yield* store.open("a/b")
        let read = 0
        yield* Stream.runForEach(opened.content, (chunk) =>
          Effect.tap(store.remove("a"), () =>
            Effect.sync(() => {
              read += chunk.length
            }),
          ),
        )
        expect(read).toBe(bytes.length)
        expect((yield* Effect.flip(Stream.runDrain(opened.content)))._tag).toBe("BlobUnavailable")
      }),
    ),
  )
})
