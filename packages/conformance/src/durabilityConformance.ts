import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Declared, type Place, type PlaceCheck, type Planned, reasonsOf } from "./capabilities.ts"
import type { Stores } from "./Check.ts"
import { storePlaceChecks } from "./durability/storePlaceChecks.ts"

/** A store that outlives its layer, in at least one of the two ways. */
export type DurableStore = Declared & {
  /** Appears in the names of the tests. */
  readonly name: string
  readonly place: Place<Stores>
}

/** Runs one check at a place of its own. */
export const runPlaceCheck = <R>(check: PlaceCheck<R>, place: Place<R>): Effect.Effect<void, unknown> =>
  Effect.scoped(Effect.flatMap(place, (layer) => check.run((use) => Effect.provide(use, Layer.fresh(layer)))))

/** Returns which checks run, and why the others are skipped. */
export const planPlaceChecks = <R>(
  store: Declared & { readonly name: string; readonly place?: Place<R> | undefined },
  checks: ReadonlyArray<PlaceCheck<R>>,
): ReadonlyArray<Planned> => {
  const reasons = reasonsOf(store.name, store)
  return checks.map((check) => {
    const reason =
      reasons[check.needs] ??
      (store.place === undefined ? "no `place` was given, see durabilityConformance" : undefined)
    return reason === undefined && store.place !== undefined
      ? { name: check.name, run: runPlaceCheck(check, store.place) }
      : { name: check.name, skipped: reason ?? "" }
  })
}

/** Registers planned tests with vitest; a skipped one carries its reason in its name. */
export const registerPlanned = (planned: ReadonlyArray<Planned>): void => {
  for (const { name, run } of planned.filter((test) => "run" in test)) it.effect(name, () => run)
  for (const { name, skipped } of planned.filter((test) => "skipped" in test))
    // Skipped because the store declares that it cannot, with its reason in the name.
    it.effect.skip(`${name} (skipped: ${skipped})`, () => Effect.void)
}

/**
 * Registers vitest tests for what a store must keep across restarts and several openings, according to its capabilities.
 * `storeConformance` includes them if it is given a `place`.
 */
export const durabilityConformance = (store: DurableStore): void => {
  const planned = planPlaceChecks(store, storePlaceChecks)
  describe(`${store.name} outlives its layer`, () => registerPlanned(planned))
}
