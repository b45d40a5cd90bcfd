import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { JobStore } from "@kiln/core/ports"
import type { StoreUnderTest } from "./Check.ts"
import { storeSections } from "./sections.ts"

/**
 * Registers the whole conformance suite of the record stores with vitest: one test a check, each on
 * a store of its own and in virtual time. Call it at the top of a test file:
 *
 * ```ts
 * storeConformance({ name: "SQLite", layer: emptyDatabase, capabilities: { durable: true, multiProcess: true } })
 * ```
 */
export const storeConformance = (store: StoreUnderTest): void => {
  // `fresh`: a layer that was built for one test must not be reused for the next.
  const layer = Layer.fresh(store.layer)
  describe(`${store.name} conforms`, () => {
    it.effect("JobStore.capabilities says what survives it", () =>
      Effect.gen(function* () {
        const { capabilities } = yield* JobStore
        expect(capabilities).toEqual(store.capabilities)
      }).pipe(Effect.provide(layer)),
    )
    for (const section of storeSections)
      describe(section.name, () => {
        for (const check of section.checks) it.effect(check.name, () => Effect.provide(check.run, layer))
      })
  })
}
