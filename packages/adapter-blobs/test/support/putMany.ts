// Puts, then reads, 50 blobs of 25 MiB concurrently and prints the memory used: `node putMany.ts <directory>`.
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { Effect, Stream } from "effect"

const [directory = ""] = process.argv.slice(2)
const BLOBS = 50
const CHUNKS = 400
const CHUNK_BYTES = 64 * 1024

// One shared buffer, so that only the memory of the store is measured, not that of the source.
const chunk = new Uint8Array(CHUNK_BYTES).fill(7)
const chunks = Stream.unfold(0, (n) => Effect.succeed(n < CHUNKS ? ([chunk, n + 1] as const) : undefined))

const keys = Array.from({ length: BLOBS }, (_, n) => `uploads/${n}/1`)
const all = <A, E>(run: (key: string) => Effect.Effect<A, E>) =>
  Effect.forEach(keys, run, { discard: true, concurrency: "unbounded" })

/** Returns the peak memory so far in MiB, as the system counts it. */
const peak = () => Math.round(process.resourceUsage().maxRSS / 1024)

const figures = await Effect.gen(function* () {
  const store = yield* BlobStore
  yield* store.put("uploads/first", Stream.take(chunks, 10), { maxBytes: 1e9 })
  const base = peak()
  const begun = performance.now()
  yield* all((key) => store.put(key, chunks, { maxBytes: CHUNKS * CHUNK_BYTES }))
  const written = performance.now()
  const afterPuts = peak()
  let bytes = 0
  yield* all((key) =>
    Effect.flatMap(store.open(key), ({ content }) =>
      Stream.runForEach(content, (read) =>
        Effect.sync(() => {
          bytes += read.length
        }),
      ),
    ),
  )
  const [putMs, readMs] = [written - begun, performance.now() - written].map(Math.round)
  return { base, afterPuts, afterReads: peak(), bytes, putMs, readMs }
}).pipe(Effect.provide(FileBlobStore.layer({ directory })), Effect.runPromise)
console.log(JSON.stringify(figures))
