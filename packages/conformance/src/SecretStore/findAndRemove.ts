import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { SecretStore } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"

export const findAndRemove: Section<SecretStore> = {
  name: "SecretStore.find, remove",
  checks: [
    check(
      "finds an existing secret, and does not create one",
      Effect.gen(function* () {
        const secrets = yield* SecretStore
        expect(yield* secrets.find("signing")).toBeUndefined()
        yield* secrets.getOrCreate("signing", Uint8Array.of(0, 255))
        const found = yield* secrets.find("signing")
        expect(found && new Uint8Array(found)).toEqual(Uint8Array.of(0, 255))
        // The caller may change its copy.
        found?.fill(1)
        expect([...((yield* secrets.find("signing")) ?? [])]).toEqual([0, 255])
        expect(yield* secrets.find("fingerprint")).toBeUndefined()
      }),
    ),

    check(
      "a removed secret is gone, others stay, and the next candidate becomes it",
      Effect.gen(function* () {
        const secrets = yield* SecretStore
        yield* secrets.getOrCreate("signing", Uint8Array.of(1))
        yield* secrets.getOrCreate("fingerprint", Uint8Array.of(2))
        expect(yield* secrets.remove("signing")).toBe(true)
        expect(yield* secrets.find("signing")).toBeUndefined()
        expect(yield* secrets.remove("signing")).toBe(false)
        expect([...((yield* secrets.find("fingerprint")) ?? [])]).toEqual([2])
        expect([...(yield* secrets.getOrCreate("signing", Uint8Array.of(3)))]).toEqual([3])
      }),
    ),
  ],
}
