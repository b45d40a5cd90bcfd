import { type S3BlobOptions, S3BlobStore } from "@kiln/adapter-s3"
import { BlobStore, type BlobLink } from "@kiln/core/ports"
import { Clock, Effect, Layer, Stream } from "effect"
import { bucket, credentials, type S3Server } from "./s3Server.ts"

// Outside of a test, so that it is not the test's clock: S3 rejects requests that are signed at another time than now.
const liveClock = Effect.runSync(Effect.clockWith(Effect.succeed))
const live = Effect.provideService(Clock.Clock, liveClock)

/** A store on the server, on real time. */
export const onServer = (server: S3Server, options: Partial<S3BlobOptions> = {}) =>
  Layer.effect(
    BlobStore,
    Effect.map(Effect.service(BlobStore), (store) =>
      BlobStore.of({
        ...store,
        put: (key, content, limits) => live(store.put(key, content, limits)),
        open: (key, range) =>
          Effect.map(live(store.open(key, range)), (blob) => ({
            ...blob,
            content: Stream.provideService(blob.content, Clock.Clock, liveClock),
          })),
        ...(store.link !== undefined && {
          link: (key: string, options: BlobLink) => live(store.link!(key, options)),
        }),
        remove: (prefix) => live(store.remove(prefix)),
        list: (prefix) => Stream.provideService(store.list(prefix), Clock.Clock, liveClock),
      }),
    ),
  ).pipe(
    Layer.provide(S3BlobStore.layer({ bucket, endpoint: server.endpoint, credentials, ...options })),
    Layer.provide(Layer.succeed(Clock.Clock, liveClock)),
  )
