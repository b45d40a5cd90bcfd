import { expect, it } from "@effect/vitest"
import { Context, Effect, Layer, Stream } from "effect"
import { BlobStore, insideOf, JobDirectory, JobStore, type StoreAdapter } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { memoryBlobs, memoryStore } from "../src/index.ts"

const { newJob } = fixtures

/** The services inside an adapter, as an engine builds them. */
const open = <R>(adapter: object): Effect.Effect<Context.Context<R>> => {
  const layer = insideOf(adapter)
  if (!Layer.isLayer(layer)) throw new Error("there is no layer inside")
  return Effect.scoped(Layer.build(Layer.fresh(layer as Layer.Layer<R>)))
}

const jobsIn = Effect.fnUntraced(function* (adapter: StoreAdapter) {
  const directory = Context.get(yield* open<JobDirectory>(adapter), JobDirectory)
  const { jobs } = yield* directory.listJobs({ limit: 10 })
  return jobs.length
})

it.effect("memoryStore: each call creates a separate store, shared by everything it is passed to", () =>
  Effect.gen(function* () {
    const [one, two] = [memoryStore(), memoryStore()]
    const store = Context.get(yield* open<JobStore>(one), JobStore)
    yield* store.createJobs([newJob(1)])
    expect([yield* jobsIn(one), yield* jobsIn(two)]).toEqual([1, 0])
  }),
)

it.effect("memoryBlobs: each call creates a separate store, shared by everything it is passed to", () =>
  Effect.gen(function* () {
    const [one, two] = [memoryBlobs(), memoryBlobs()]
    const blobs = Context.get(yield* open<BlobStore>(one), BlobStore)
    yield* blobs.put("jobs/a/1/audio", Stream.make(Uint8Array.of(1, 2)), { maxBytes: 10 })
    const sizeIn = (adapter: object) =>
      Effect.flatMap(open<BlobStore>(adapter), (context) =>
        Effect.map(Effect.option(Context.get(context, BlobStore).open("jobs/a/1/audio")), (found) =>
          found._tag === "Some" ? found.value.bytes : undefined,
        ),
      )
    expect([yield* sizeIn(one), yield* sizeIn(two)]).toEqual([2, undefined])
  }),
)
