import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { BlobUnavailable } from "../domain/index.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { BlobStore } from "../ports/BlobStore.ts"
import { JobStore } from "../ports/JobStore.ts"
import { BlobGuard } from "./BlobGuard.ts"

const unavailable = (operation: string): BlobUnavailable =>
  new BlobUnavailable({
    operation,
    cause: new Error("this engine has no place for files: pass createEngine() the `blobs` of the others"),
  })

/**
 * The blob store of an engine whose kinds have no files.
 *
 * Every process with blobs gives the store a lineage before it writes its first file (`announceBlobs`). While the store has none, no job has
 * files, so every removal succeeds: a caller names files that were unreachable before it asked. A lost attempt of another process may still
 * write one later, which is then an orphan, as after any removal. Blobs may be added at any time: later purges are kept for them. Once
 * the store has a lineage, this process removes nothing and claims nothing: purges stay recorded for the processes with blobs, which may have
 * files of kinds that this one does not know.
 */
export const noBlobs: Layer.Layer<BlobStore | BlobGuard, never, JobStore> = Layer.effectContext(
  Effect.gen(function* () {
    const store = yield* JobStore
    // A store never loses its lineage, unless it is replaced by an older copy: then purges are only kept.
    let used = false
    const isUnused = Effect.suspend(() =>
      used
        ? Effect.succeed(false)
        : Effect.map(store.readLineage, ({ document }) => {
            used = document !== null
            return !used
          }),
    )
    const ifUnused = (operation: string) =>
      Effect.flatMap(
        Effect.mapError(isUnused, ({ cause }) => new BlobUnavailable({ operation, cause })),
        (unused) => (unused ? Effect.void : Effect.fail(unavailable(operation))),
      )
    return Context.make(BlobStore, {
      put: () => Effect.fail(unavailable("put")),
      open: () => Effect.fail(unavailable("open")),
      remove: () => ifUnused("remove"),
      list: () => Stream.drain(Stream.fromEffect(ifUnused("list"))),
    }).pipe(
      Context.add(BlobGuard, {
        join: Effect.void,
        look: Effect.void,
        intervalMs: Effect.map(EngineConfig, ({ blobWatchIntervalMs }) => blobWatchIntervalMs),
        isSettled: Effect.orElseSucceed(isUnused, () => false),
      }),
    )
  }),
)
