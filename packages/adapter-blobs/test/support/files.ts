import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { Effect, Stream } from "effect"
import { temporaryDirectory } from "./temporaryDirectory.ts"

export const LIMIT = { maxBytes: 1e9 }
export const bytes = Uint8Array.from({ length: 200_000 }, (_, n) => (n * 31) % 251)
export const content = Stream.unfold(0, (at) =>
  Effect.succeed(at < bytes.length ? ([bytes.slice(at, at + 30_000), at + 30_000] as const) : undefined),
)
export const drain = (store: BlobStore["Service"], key: string, range?: { offset: number; length?: number }) =>
  Effect.flatMap(store.open(key, range), (opened) => Stream.runDrain(opened.content))

export const onFiles = <E>(run: (store: BlobStore["Service"], directory: string) => Effect.Effect<void, E>) =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    const store = yield* Effect.provide(BlobStore, FileBlobStore.layer({ directory }))
    yield* run(store, directory)
  })

/** Lists everything below the directory; directories end with a slash. */
export const tree = (directory: string) =>
  Effect.promise(async () => {
    const entries = await readdir(directory, { recursive: true, withFileTypes: true })
    return entries
      .map((e) => join(e.parentPath, e.name).slice(directory.length + 1) + (e.isDirectory() ? "/" : ""))
      .sort()
  })

export const EMPTY = ["blobs/", "blobs/.store", "tmp/"]

export const nextTurn = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})
