import { expect, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { fixtures } from "@kiln/conformance"
import { JobEvents, layerGroupCommit } from "@kiln/core/effect"
import { BlobStore, IdGenerator, JobStore, WakeUp } from "@kiln/core/ports"
import { BlobGuard } from "@kiln/core/worker"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"

/** Blobs whose listing can be made empty, as after another volume was mounted in their place. */
const layerBlobs = (isEmptied: () => boolean) =>
  Layer.effect(
    BlobStore,
    Effect.map(BlobStore, (blobs) =>
      BlobStore.of({ ...blobs, list: (prefix) => (isEmptied() ? Stream.empty : blobs.list(prefix)) }),
    ),
  ).pipe(Layer.provide(MemoryBlobStore.layer))

it.effect("a blob store that loses the installation's entries stops acceptance and claims until they are back", () => {
  let emptied = false
  return Effect.gen(function* () {
    const guard = yield* BlobGuard
    const store = yield* JobStore
    yield* guard.join
    yield* guard.look
    emptied = true
    expect(yield* Effect.flip(guard.look)).toMatchObject({
      _tag: "BlobUnavailable",
      message: expect.stringContaining("no longer has the entries of this installation"),
    })
    const refused = { _tag: "StoreUnavailable", message: expect.stringContaining("No job is accepted or run") }
    expect(yield* Effect.flip(store.createJobs([fixtures.newJob(1)]))).toMatchObject(refused)
    emptied = false
    yield* guard.look
    expect(yield* store.createJobs([fixtures.newJob(1)])).toMatchObject([{ _tag: "Created" }])
  }).pipe(
    Effect.provide(
      Layer.mergeAll(layerGroupCommit, BlobGuard.layer).pipe(
        Layer.provideMerge(
          Layer.mergeAll(
            layerBlobs(() => emptied),
            MemoryStores.layer,
            IdGenerator.layer,
            WakeUp.layer,
            JobEvents.layer,
          ),
        ),
      ),
    ),
  )
})
