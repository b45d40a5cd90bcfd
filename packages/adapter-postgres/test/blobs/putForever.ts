// Writes a blob that never ends, until it is killed.
import { BlobStore } from "@kiln/core/ports"
import { Effect, Stream } from "effect"
import { PostgresBlobStore } from "../../src/index.ts"

const [url = "", key = ""] = process.argv.slice(2)
const pieces = Stream.tap(Stream.forever(Stream.make(new Uint8Array(64 * 1024))), () => Effect.sleep(2))

await Effect.runPromise(
  Effect.flatMap(BlobStore, ({ put }) => put(key, pieces, { maxBytes: Infinity })).pipe(
    Effect.provide(PostgresBlobStore.layer({ url, poolSize: 2 })),
  ),
)
