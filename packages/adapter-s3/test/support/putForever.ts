import { S3BlobStore } from "@kiln/adapter-s3"
import { BlobStore } from "@kiln/core/ports"
import { Effect, Stream } from "effect"
import { bucket, credentials } from "./s3Server.ts"

// Started as a process, to be killed in the middle of a put: sends parts until then.
const [endpoint = "", key = ""] = process.argv.slice(2)
const endless = Stream.forever(Stream.sync(() => new Uint8Array(1024 * 1024).fill(7)))

await Effect.gen(function* () {
  const store = yield* BlobStore
  yield* store.put(key, endless, { maxBytes: Number.POSITIVE_INFINITY })
}).pipe(Effect.provide(S3BlobStore.layer({ bucket, endpoint, credentials })), Effect.runPromise)
