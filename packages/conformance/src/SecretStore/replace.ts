import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { SecretStore } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"

const bytes = (...values: ReadonlyArray<number>) => Uint8Array.from(values)

export const replaceSecret: Section<SecretStore> = {
  name: "SecretStore.replace",
  checks: [
    check(
      "replaces the expected secret, and no other",
      Effect.gen(function* () {
        const secrets = yield* SecretStore
        yield* secrets.getOrCreate("signing", bytes(1, 255))
        yield* secrets.getOrCreate("fingerprint", bytes(1, 255))
        const value = bytes(2)
        expect(yield* secrets.replace("signing", bytes(1, 255), value)).toBe(true)
        // The caller may change its copy.
        value.fill(9)
        expect([...((yield* secrets.find("signing")) ?? [])]).toEqual([2])
        expect([...((yield* secrets.find("fingerprint")) ?? [])]).toEqual([1, 255])
      }),
    ),

    check(
      "writes nothing if the secret is not the expected one",
      Effect.gen(function* () {
        const secrets = yield* SecretStore
        yield* secrets.getOrCreate("signing", bytes(1, 2))
        for (const expected of [bytes(1), bytes(1, 2, 3), bytes(), undefined])
          expect(yield* secrets.replace("signing", expected, bytes(9))).toBe(false)
        expect([...((yield* secrets.find("signing")) ?? [])]).toEqual([1, 2])
      }),
    ),

    check(
      "creates a secret that must not exist yet, once",
      Effect.gen(function* () {
        const secrets = yield* SecretStore
        expect(yield* secrets.replace("signing", bytes(1), bytes(2))).toBe(false)
        expect(yield* secrets.find("signing")).toBeUndefined()
        expect(yield* secrets.replace("signing", undefined, bytes(1))).toBe(true)
        expect(yield* secrets.replace("signing", undefined, bytes(2))).toBe(false)
        expect([...((yield* secrets.find("signing")) ?? [])]).toEqual([1])
      }),
    ),
  ],
}
