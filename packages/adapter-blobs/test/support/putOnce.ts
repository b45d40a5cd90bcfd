// Puts one blob and prints the outcome as one line of JSON: `node putOnce.ts <directory> <key> <bytes>`.
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { Effect, Stream } from "effect"

const [directory = "", key = "", length = ""] = process.argv.slice(2)
const CHUNK_BYTES = 64 * 1024

const chunks = Stream.unfold(Number(length), (left) =>
  Effect.succeed(
    left > 0 ? ([new Uint8Array(Math.min(left, CHUNK_BYTES)).fill(7), left - CHUNK_BYTES] as const) : undefined,
  ),
)

const code = (cause: unknown) => (cause instanceof Error && "code" in cause ? cause.code : String(cause))

const line = await Effect.gen(function* () {
  const store = yield* BlobStore
  return yield* store.put(key, chunks, { maxBytes: Number.MAX_SAFE_INTEGER })
}).pipe(
  Effect.provide(FileBlobStore.layer({ directory })),
  Effect.match({
    onSuccess: (info) => ({ tag: "Stored", ...info }),
    onFailure: (error) => ({
      tag: error._tag,
      ...(error._tag === "BlobUnavailable" && { operation: error.operation, code: code(error.cause) }),
    }),
  }),
  Effect.runPromise,
)
console.log(JSON.stringify(line))
