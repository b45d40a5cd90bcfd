import { BlobStore } from "@kiln/core/ports"
import { Clock, Effect, Layer, Stream } from "effect"
import { type PostgresBlobOptions, PostgresBlobStore } from "../../src/index.ts"

// Outside of a test, so that it is not the test's clock: pauses between two tries are real time.
const liveClock = Effect.runSync(Effect.clockWith(Effect.succeed))
const live = Effect.provideService(Clock.Clock, liveClock)

/** A store on real time. */
export const blobsIn = (options: PostgresBlobOptions) =>
  Layer.effect(
    BlobStore,
    Effect.map(Effect.service(BlobStore), (store) =>
      BlobStore.of({
        put: (key, content, limits) => live(store.put(key, content, limits)),
        open: (key, range) =>
          Effect.map(live(store.open(key, range)), (blob) => ({
            ...blob,
            content: Stream.provideService(blob.content, Clock.Clock, liveClock),
          })),
        remove: (prefix) => live(store.remove(prefix)),
        list: (prefix) => Stream.provideService(store.list(prefix), Clock.Clock, liveClock),
      }),
    ),
  ).pipe(
    Layer.provide(PostgresBlobStore.layer({ poolSize: 3, ...options })),
    Layer.provide(Layer.succeed(Clock.Clock, liveClock)),
  )
