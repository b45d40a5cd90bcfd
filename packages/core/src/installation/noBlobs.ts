import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { BlobUnavailable } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { BlobStore } from "../ports/BlobStore.ts"
import { BlobGuard } from "./BlobGuard.ts"

const unavailable = (operation: string): BlobUnavailable =>
  new BlobUnavailable({
    operation,
    cause: new Error("this engine has no place for files: pass createEngine() the `blobs` of the others"),
  })

/**
 * The blob store of an engine whose kinds have no files. It never claims to have removed anything: files of other processes' jobs
 * stay recorded for those, and so this process never removes orphans either.
 */
export const noBlobs: Layer.Layer<BlobStore | BlobGuard> = Layer.merge(
  Layer.succeed(BlobStore, {
    put: () => Effect.fail(unavailable("put")),
    open: () => Effect.fail(unavailable("open")),
    remove: () => Effect.fail(unavailable("remove")),
    list: () => Stream.fail(unavailable("list")),
  }),
  Layer.succeed(BlobGuard, {
    join: Effect.void,
    look: Effect.void,
    intervalMs: Effect.map(EngineConfig, ({ blobWatchIntervalMs }) => blobWatchIntervalMs),
    isSettled: Effect.succeed(false),
  }),
)
