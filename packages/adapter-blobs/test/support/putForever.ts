// Writes an endless blob and prints `written` after the first 40 chunks: `node putForever.ts <directory> <key>`.
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { Effect, Stream } from "effect"

const [directory = "", key = ""] = process.argv.slice(2)
const chunks = Stream.unfold(0, (n) =>
  Effect.sync(() => {
    // The first 40 chunks were written before this one was pulled.
    if (n === 40) console.log("written")
    return [new Uint8Array(64 * 1024).fill(7), n + 1] as const
  }),
)

await Effect.gen(function* () {
  const store = yield* BlobStore
  yield* store.put(key, chunks, { maxBytes: 1e9 })
}).pipe(Effect.provide(FileBlobStore.layer({ directory })), Effect.runPromise)
