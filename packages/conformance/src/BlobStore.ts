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
 * Declares vitest tests for the promises of every `BlobStore`. Call it at the top of a test file. `durable`: blobs survive
 * reopening the store. `multiProcess`: several openings may use them at the same time. Power failures and damage need access to
 * the storage itself, so the adapter's own tests must cover them.
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
