import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type AuditLog, JobStore, type KeyDirectory, type SecretStore, type Switchboard } from "@kiln/core/ports"
import type { PlaceCheck } from "./capabilities.ts"
import { type Check, check, type Section, type Stores, type StoreUnderTest } from "./Check.ts"
import {
  auditPlaceChecks,
  boardPlaceChecks,
  keyPlaceChecks,
  secretPlaceChecks,
  uploadPlaceChecks,
} from "./durability/portPlaceChecks.ts"
import { storePlaceChecks } from "./durability/storePlaceChecks.ts"
import { planPlaceChecks, registerPlanned } from "./durabilityConformance.ts"
import {
  auditLogSections,
  jobDirectorySections,
  jobStoreSections,
  keyDirectorySections,
  secretStoreSections,
  storeSections,
  switchboardSections,
  uploadStoreSections,
} from "./sections.ts"

/** Registers one test for each check, on a new store and in virtual time. */
const register = <R>(
  store: StoreUnderTest<R>,
  sections: ReadonlyArray<Section<R>>,
  placeChecks: ReadonlyArray<PlaceCheck<R>>,
): void => {
  const planned = planPlaceChecks(store, placeChecks)
  // `fresh`: a layer that was built for one test must not be reused for the next.
  const layer = Layer.fresh(store.place === undefined ? store.layer : Layer.unwrap(store.place))
  describe(`${store.name} conforms`, () => {
    for (const section of sections)
      describe(section.name, () => {
        for (const { name, run } of section.checks) it.effect(name, () => Effect.provide(run, layer))
      })
  })
  describe(`${store.name} outlives its layer`, () => registerPlanned(planned))
}

const declares = ({ capabilities }: StoreUnderTest): Check<JobStore> =>
  check(
    "declares its capabilities",
    Effect.gen(function* () {
      const store = yield* JobStore
      expect(store.capabilities).toEqual(capabilities)
    }),
  )

/**
 * Registers the whole conformance suite of the record stores with vitest. Call it at the top of a test file. Every capability
 * declared false needs a reason; the tests that it rules out are registered as skipped, with the reason in their names.
 *
 * ```ts
 * storeConformance({ name: "SQLite", place: newDatabase, capabilities: { durable: true, multiProcess: true } })
 * storeConformance({
 *   name: "memory",
 *   layer: MemoryStores.layer,
 *   capabilities: { durable: false, multiProcess: false },
 *   reasons: { durable: "it is memory", multiProcess: "it is one process's memory" },
 * })
 * ```
 */
export const storeConformance = (store: StoreUnderTest): void =>
  register(store, [{ name: "JobStore.capabilities", checks: [declares(store)] }, ...storeSections], storePlaceChecks)

/** The part about `JobStore`. Its transactions span the other ports, so all take part. */
export const jobStoreConformance = (store: StoreUnderTest): void =>
  register(store, [{ name: "JobStore.capabilities", checks: [declares(store)] }, ...jobStoreSections], storePlaceChecks)

/** The part about `JobDirectory`. It reads what `JobStore` wrote, so all ports take part. */
export const jobDirectoryConformance = (store: StoreUnderTest): void =>
  register(store, jobDirectorySections, storePlaceChecks)

/** The part about `UploadStore`. Jobs consume uploads in one transaction, so all ports take part. */
export const uploadStoreConformance = (store: StoreUnderTest): void =>
  register(store, uploadStoreSections, uploadPlaceChecks satisfies ReadonlyArray<PlaceCheck<Stores>>)

export const keyDirectoryConformance = (store: StoreUnderTest<KeyDirectory>): void =>
  register(store, keyDirectorySections, keyPlaceChecks)

export const switchboardConformance = (store: StoreUnderTest<Switchboard>): void =>
  register(store, switchboardSections, boardPlaceChecks)

export const secretStoreConformance = (store: StoreUnderTest<SecretStore>): void =>
  register(store, secretStoreSections, secretPlaceChecks)

/** The audit log, which only stores with a database have: call it besides `storeConformance`. All ports take part. */
export const auditLogConformance = (store: StoreUnderTest<AuditLog | Stores>): void =>
  register(store, auditLogSections, auditPlaceChecks satisfies ReadonlyArray<PlaceCheck<AuditLog | Stores>>)
