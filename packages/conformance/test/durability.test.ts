import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Stream } from "effect"
import { BlobStore } from "@kiln/core/ports"
import { blobPlaceChecks } from "../src/BlobStore/placeChecks.ts"
import type { PlaceCheck } from "../src/capabilities.ts"
import {
  boardPlaceChecks,
  keyPlaceChecks,
  secretPlaceChecks,
  uploadPlaceChecks,
} from "../src/durability/portPlaceChecks.ts"
import { storePlaceChecks } from "../src/durability/storePlaceChecks.ts"
import { runPlaceCheck } from "../src/durabilityConformance.ts"
import {
  blobStoreConformance,
  durabilityConformance,
  keyDirectoryConformance,
  secretStoreConformance,
  switchboardConformance,
  uploadStoreConformance,
} from "../src/index.ts"
import { MemoryBlobStore, MemoryStores } from "@kiln/testing"

// One memory store per place, opened again and again: as if it were durable and shared.
const shared = {
  name: "A shared memory store",
  place: Effect.map(Layer.build(Layer.fresh(MemoryStores.layer)), Layer.succeedContext),
  capabilities: { durable: true, multiProcess: true },
} as const
durabilityConformance(shared)
uploadStoreConformance(shared)
keyDirectoryConformance(shared)
switchboardConformance(shared)
secretStoreConformance(shared)
blobStoreConformance({
  ...shared,
  place: Effect.map(Layer.build(Layer.fresh(MemoryBlobStore.layer)), Layer.succeedContext),
})

describe("a store that starts empty on each opening fails", () => {
  const fails = <R>(checks: ReadonlyArray<PlaceCheck<R>>, layer: Layer.Layer<R>): void => {
    for (const check of checks)
      it.effect(check.name, () =>
        Effect.gen(function* () {
          const exit = yield* Effect.exit(runPlaceCheck(check, Effect.succeed(layer)))
          expect(Exit.isFailure(exit)).toBe(true)
        }),
      )
  }
  fails(storePlaceChecks, MemoryStores.layer)
  fails(uploadPlaceChecks, MemoryStores.layer)
  fails(keyPlaceChecks, MemoryStores.layer)
  fails(boardPlaceChecks, MemoryStores.layer)
  fails(secretPlaceChecks, MemoryStores.layer)
  fails(blobPlaceChecks, MemoryBlobStore.layer)
})

describe("a blob store that writes in place fails", () => {
  // An empty blob is there from the first byte on.
  const inPlace = Effect.map(Layer.build(Layer.fresh(MemoryBlobStore.layer)), (context) => {
    const blobs = Context.get(context, BlobStore)
    return Layer.succeed(BlobStore, {
      ...blobs,
      put: (key, content, options) =>
        Effect.andThen(Effect.ignore(blobs.put(key, Stream.empty, options)), blobs.put(key, content, options)),
    })
  })
  for (const check of blobPlaceChecks.filter(({ name }) => /never whole|still being written/.test(name)))
    it.effect(check.name, () =>
      Effect.gen(function* () {
        expect(Exit.isFailure(yield* Effect.exit(runPlaceCheck(check, inPlace)))).toBe(true)
      }),
    )
})
