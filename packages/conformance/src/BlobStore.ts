import type { BlobStore } from "@kiln/core/ports"
import { describe } from "@effect/vitest"
import * as Layer from "effect/Layer"
import { putIsAllOrNothing } from "./BlobStore/allOrNothing.ts"
import { keysAreChecked } from "./BlobStore/keys.ts"
import { listsBlobs } from "./BlobStore/list.ts"
import { opensBlobs } from "./BlobStore/open.ts"
import { blobPlaceChecks } from "./BlobStore/placeChecks.ts"
import { keepsBytes } from "./BlobStore/properties.ts"
import { putsBlobs } from "./BlobStore/put.ts"
import { removesBlobs } from "./BlobStore/remove.ts"
import { blobTester } from "./BlobStore/support.ts"
import type { StoreUnderTest } from "./Check.ts"
import { planPlaceChecks, registerPlanned } from "./durabilityConformance.ts"

/**
 * What every `BlobStore` promises, as vitest tests: call it at the top of a test file. `durable`: blobs are there when
 * the store is opened again. `multiProcess`: several openings may use them at once. What a power failure leaves and the
 * detection of damage need a hand in the storage itself, and are for the adapter's own tests.
 */
export const blobStoreConformance = (subject: StoreUnderTest<BlobStore>): void => {
  const planned = planPlaceChecks(subject, blobPlaceChecks)
  const test = blobTester(subject.place === undefined ? subject.layer : Layer.unwrap(subject.place))
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
    describe("outlives its layer", () => registerPlanned(planned))
  })
}
