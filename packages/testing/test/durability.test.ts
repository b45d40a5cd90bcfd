import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { durabilityConformance } from "../src/conformance/index.ts"
import { placeChecks, runPlaceCheck } from "../src/conformance/durabilityConformance.ts"
import { MemoryStores } from "../src/index.ts"

// One memory store per place, opened again and again: as if it were durable and shared.
const shared = Effect.map(Layer.build(Layer.fresh(MemoryStores.layer)), Layer.succeedContext)
durabilityConformance({
  name: "A shared memory store",
  place: shared,
  capabilities: { durable: true, multiProcess: true },
})

describe("a store that begins anew with each opening fails", () => {
  for (const check of placeChecks)
    it.effect(check.name, () =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(runPlaceCheck(check, Effect.succeed(MemoryStores.layer)))
        expect(Exit.isFailure(exit)).toBe(true)
      }),
    )
})
