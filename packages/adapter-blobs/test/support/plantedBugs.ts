import { createHash } from "node:crypto"
import { readFile, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type * as Adapter from "@kiln/adapter-blobs"
import { BlobStore, markReleasable } from "@kiln/core/ports"
import { Effect, type Scope, Stream } from "effect"
import { trickyStorage } from "./drivers.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

export interface PlantedBug {
  readonly bug: string
  /** Path below `src/`. */
  readonly file: string
  readonly from: string
  readonly to: string
  /** Succeeds if the store behaves correctly. */
  readonly check: (adapter: typeof Adapter) => Effect.Effect<unknown, unknown, Scope.Scope>
}

const LIMIT = { maxBytes: 1e6 }
const filled = (fill: number) => Stream.succeed(new Uint8Array(1_000).fill(fill))

const openFiles = Effect.fnUntraced(function* ({ FileBlobStore }: typeof Adapter) {
  const directory = yield* temporaryDirectory
  const store = yield* Effect.provide(BlobStore, FileBlobStore.layer({ directory }))
  yield* store.put("a/b", filled(1), LIMIT)
  return { store, file: (key: string) => join(directory, "blobs", `${key}.blob`) }
})

/** Must fail with `BlobCorrupt`. */
const refuses = <A>(read: Effect.Effect<A, { readonly _tag: string }>) =>
  Effect.flatMap(Effect.flip(read), (error) => (error._tag === "BlobCorrupt" ? Effect.void : Effect.fail(error)))

export const plantedBugs: ReadonlyArray<PlantedBug> = [
  {
    bug: "a file replaced between open and read is read instead of the opened one",
    file: "file/open.ts",
    from: "if (opened.info.sha256 !== info.sha256) return yield* Effect.fail(new BlobCorrupt({ key }))",
    to: "",
    check: Effect.fnUntraced(function* (adapter) {
      const { file, store } = yield* openFiles(adapter)
      yield* store.put("a/other", filled(2), LIMIT)
      // Only a part: for the whole blob, the digest would detect it.
      const opened = yield* store.open("a/b", { offset: 0, length: 10 })
      yield* Effect.promise(() => rename(file("a/other"), file("a/b")))
      yield* refuses(Stream.runDrain(opened.content))
    }),
  },
  {
    bug: "the digest of a whole read is not verified",
    file: "file/open.ts",
    from: 'hash.digest("hex") !== info.sha256',
    to: 'hash.digest("hex") === ""',
    check: Effect.fnUntraced(function* (adapter) {
      const { file, store } = yield* openFiles(adapter)
      const changed = yield* Effect.promise(() => readFile(file("a/b")))
      changed.writeUInt8(7, 500)
      yield* Effect.promise(() => writeFile(file("a/b"), changed))
      const opened = yield* store.open("a/b")
      yield* refuses(Stream.runDrain(opened.content))
    }),
  },
  {
    bug: "the length of a file is not verified",
    file: "file/open.ts",
    from: "info.bytes + FOOTER_BYTES === size",
    to: "info.bytes >= 0",
    check: Effect.fnUntraced(function* (adapter) {
      const { file, store } = yield* openFiles(adapter)
      const whole = yield* Effect.promise(() => readFile(file("a/b")))
      yield* Effect.promise(() => writeFile(file("a/b"), whole.subarray(10)))
      yield* refuses(store.open("a/b", { offset: 0, length: 10 }))
    }),
  },
  {
    bug: "bytes are freed before they are hashed",
    file: "file/put.ts",
    from: "for (const piece of pieces) hash.update(piece)",
    to: "for (const piece of pieces) { releaseBytes(piece); hash.update(piece) }",
    check: Effect.fnUntraced(function* (adapter) {
      const { store } = yield* openFiles(adapter)
      const piece = new Uint8Array(1_000).fill(3)
      markReleasable(piece)
      const { sha256 } = yield* store.put("a/freed", Stream.succeed(piece), LIMIT)
      if (sha256 !== createHash("sha256").update(new Uint8Array(1_000).fill(3)).digest("hex"))
        return yield* Effect.fail("wrong digest")
    }),
  },
  {
    bug: "the digest of a chunk is not verified",
    file: "unstorage/open.ts",
    from: '&& createHash("sha256").update(chunk).digest("hex") === manifest.chunks[index]',
    to: "",
    check: Effect.fnUntraced(function* ({ UnstorageBlobStore }) {
      const storage = trickyStorage()
      const store = yield* Effect.provide(BlobStore, UnstorageBlobStore.layer({ storage, chunkBytes: 500 }))
      yield* store.put("a/b", filled(1), LIMIT)
      const chunk = [...storage.items.keys()].find((key) => key.endsWith("-1")) ?? ""
      storage.items.set(chunk, new Uint8Array(500).fill(2))
      const opened = yield* store.open("a/b", { offset: 600, length: 10 })
      yield* refuses(Stream.runDrain(opened.content))
    }),
  },
  {
    bug: "a driver that lists one page is accepted as complete",
    file: "unstorage/probeListing.ts",
    from: "listed.length === PROBE_ITEMS",
    to: "listed.length > 0",
    check: ({ UnstorageBlobStore }) => {
      const storage = trickyStorage()
      storage.tricks.keys = (keys) => keys.toSorted().slice(-1_000)
      return Effect.flip(Effect.provide(BlobStore, UnstorageBlobStore.layer({ storage })))
    },
  },
]
