// Removes a prefix and prints the outcome as one line of JSON: `node removeOnce.ts <directory> <prefix>`.
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { Effect } from "effect"

const [directory = "", prefix = ""] = process.argv.slice(2)

const code = (cause: unknown) => (cause instanceof Error && "code" in cause ? cause.code : String(cause))

const line = await Effect.flatMap(BlobStore, (store) => store.remove(prefix)).pipe(
  Effect.provide(FileBlobStore.layer({ directory })),
  Effect.match({
    onSuccess: () => ({ tag: "Removed" }),
    onFailure: (error) => ({ tag: error._tag, operation: error.operation, code: code(error.cause) }),
  }),
  Effect.runPromise,
)
console.log(JSON.stringify(line))
