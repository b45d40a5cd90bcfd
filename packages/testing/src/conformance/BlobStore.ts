import type { BlobStore } from "@kiln/core/ports"
import { describe } from "@effect/vitest"
import type { Layer } from "effect"
import { putIsAllOrNothing } from "./BlobStore/allOrNothing.ts"
import { keysAreChecked } from "./BlobStore/keys.ts"
import { listsBlobs } from "./BlobStore/list.ts"
import { opensBlobs } from "./BlobStore/open.ts"
import { keepsBytes } from "./BlobStore/properties.ts"
import { putsBlobs } from "./BlobStore/put.ts"
import { removesBlobs } from "./BlobStore/remove.ts"
import { blobTester } from "./BlobStore/support.ts"

/**
 * What every `BlobStore` promises, as vitest tests: call it at the top of a test file. Durability and the detection of
 * damage need a hand in the storage itself and are for the adapter's own tests.
 */
export const blobStoreConformance = (subject: {
  readonly name: string
  /** Each build of it is a store that holds nothing. */
  readonly layer: Layer.Layer<BlobStore, unknown>
}): void => {
  const test = blobTester(subject.layer)
  describe(`BlobStore: ${subject.name}`, () => {
    describe("put", () => {
      putsBlobs(test)
      putIsAllOrNothing(test)
    })
    describe("open", () => opensBlobs(test))
    describe("remove", () => removesBlobs(test))
    describe("list", () => listsBlobs(test))
    describe("keys", () => keysAreChecked(test))
    describe("properties", () => keepsBytes(test))
  })
}
