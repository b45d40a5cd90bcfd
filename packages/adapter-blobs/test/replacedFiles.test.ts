import { createHash } from "node:crypto"
import { readFile, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, it } from "@effect/vitest"
import { FileBlobStore, UnstorageBlobStore } from "@kiln/adapter-blobs"
import { BlobStore, markReleasable } from "@kiln/core/ports"
import { Effect, Stream } from "effect"
import { trickyStorage } from "./support/drivers.ts"
import { temporaryDirectory } from "./support/temporaryDirectory.ts"

const LIMIT = { maxBytes: 1e6 }
const filled = (fill: number) => Stream.succeed(new Uint8Array(1_000).fill(fill))
/** Too large to be read when it is opened. */
const large = (fill: number) => Stream.succeed(new Uint8Array(100_000).fill(fill))

const openFiles = Effect.gen(function* () {
  const directory = yield* temporaryDirectory
  const store = yield* Effect.provide(BlobStore, FileBlobStore.layer({ directory }))
  yield* store.put("a/b", filled(1), LIMIT)
  return { store, file: (key: string) => join(directory, "blobs", `${key}.blob`) }
})

/** Must fail with `BlobCorrupt`. */
const refuses = <A>(read: Effect.Effect<A, { readonly _tag: string }>) =>
  Effect.flatMap(Effect.flip(read), (error) => (error._tag === "BlobCorrupt" ? Effect.void : Effect.fail(error)))

describe("blobs on a disk or driver that returns other bytes", () => {
  it.effect("a file that replaced the opened one is not read instead of it", () =>
    Effect.gen(function* () {
      const { file, store } = yield* openFiles
      yield* store.put("a/large", large(1), LIMIT)
      yield* store.put("a/other", large(2), LIMIT)
      // Only a part: for the whole blob, the digest would detect it.
      const opened = yield* store.open("a/large", { offset: 0, length: 10 })
      yield* Effect.promise(() => rename(file("a/other"), file("a/large")))
      yield* refuses(Stream.runDrain(opened.content))
    }),
  )
  it.effect("a whole read verifies the digest", () =>
    Effect.gen(function* () {
      const { file, store } = yield* openFiles
      const changed = yield* Effect.promise(() => readFile(file("a/b")))
      changed.writeUInt8(7, 500)
      yield* Effect.promise(() => writeFile(file("a/b"), changed))
      const opened = yield* store.open("a/b")
      yield* refuses(Stream.runDrain(opened.content))
    }),
  )
  it.effect("a file that lost its beginning is not opened", () =>
    Effect.gen(function* () {
      const { file, store } = yield* openFiles
      const whole = yield* Effect.promise(() => readFile(file("a/b")))
      yield* Effect.promise(() => writeFile(file("a/b"), whole.subarray(10)))
      yield* refuses(store.open("a/b", { offset: 0, length: 10 }))
    }),
  )
  it.effect("released bytes are hashed before they are freed", () =>
    Effect.gen(function* () {
      const { store } = yield* openFiles
      const piece = new Uint8Array(1_000).fill(3)
      markReleasable(piece)
      const { sha256 } = yield* store.put("a/freed", Stream.succeed(piece), LIMIT)
      if (sha256 !== createHash("sha256").update(new Uint8Array(1_000).fill(3)).digest("hex"))
        return yield* Effect.fail("wrong digest")
    }),
  )
  it.effect("a part of a chunk is read only if the digest of the chunk matches", () =>
    Effect.gen(function* () {
      const storage = trickyStorage()
      const store = yield* Effect.provide(BlobStore, UnstorageBlobStore.layer({ storage, chunkBytes: 500 }))
      yield* store.put("a/b", filled(1), LIMIT)
      const chunk = [...storage.items.keys()].find((key) => key.endsWith("-1")) ?? ""
      storage.items.set(chunk, new Uint8Array(500).fill(2))
      const opened = yield* store.open("a/b", { offset: 600, length: 10 })
      yield* refuses(Stream.runDrain(opened.content))
    }),
  )
  it.effect("a driver that lists only one page is refused", () => {
    const storage = trickyStorage()
    storage.tricks.keys = (keys) => keys.toSorted().slice(-1_000)
    return Effect.flip(Effect.provide(BlobStore, UnstorageBlobStore.layer({ storage })))
  })
})
