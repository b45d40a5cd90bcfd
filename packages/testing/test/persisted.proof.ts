import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { vi } from "vitest"
import { runPlaceCheck, storePlaceChecks } from "@kiln/conformance"
import { persistedInMemory } from "./persistedInMemory.ts"
import { caughtBy, wrongNatures, type WrongNature } from "./plantedBugs/wrongNatures.ts"

const planted = vi.hoisted(() => ({ current: undefined as WrongNature | undefined }))
vi.mock(import("@kiln/core/ports"), async (importOriginal) => {
  const ports = await importOriginal()
  return {
    ...ports,
    natureOf: (port, verb) =>
      planted.current?.port === port && planted.current.verb === verb ? "read" : ports.natureOf(port, verb),
  }
})

describe("a writing verb that is declared as reading is detected", () => {
  for (const bug of wrongNatures)
    it.effect(bug.bug, () =>
      Effect.gen(function* () {
        const check = storePlaceChecks.find(({ name }) => name === caughtBy(bug))
        if (check === undefined) throw new Error(`no check ${caughtBy(bug)}`)
        planted.current = bug
        const refusal = yield* Effect.sandbox(runPlaceCheck(check, persistedInMemory.place)).pipe(
          Effect.flip,
          Effect.ensuring(Effect.sync(() => (planted.current = undefined))),
        )
        expect(String(refusal)).toContain(`what ${bug.port}.${bug.verb} wrote`)
      }),
    )
})
