import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { SecretStore } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"

const bytes = (n: number): Uint8Array => Uint8Array.from({ length: 32 }, (_, at) => (n * 31 + at) % 256)

export const getOrCreate: Section<SecretStore> = {
  name: "SecretStore.getOrCreate",
  checks: [
    check(
      "the first candidate becomes the secret, every later one is ignored",
      Effect.gen(function* () {
        const secrets = yield* SecretStore
        expect(yield* secrets.getOrCreate("signing", bytes(1))).toEqual(bytes(1))
        expect(yield* secrets.getOrCreate("signing", bytes(2))).toEqual(bytes(1))
        expect(yield* secrets.getOrCreate("fingerprint", bytes(3))).toEqual(bytes(3))
        expect(yield* secrets.getOrCreate("signing", bytes(4))).toEqual(bytes(1))
      }),
    ),

    check(
      "all concurrent callers get the same one",
      Effect.gen(function* () {
        const secrets = yield* SecretStore
        const got = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, n) => n),
          (n) => secrets.getOrCreate("signing", bytes(n)),
          { concurrency: "unbounded" },
        )
        for (const secret of got) expect(secret).toEqual(got[0])
      }),
    ),

    check(
      "keeps a copy of all bytes",
      Effect.gen(function* () {
        const secrets = yield* SecretStore
        const all = Uint8Array.from({ length: 256 }, (_, at) => at)
        const given = all.slice()
        yield* secrets.getOrCreate("all", given)
        given.fill(0)
        const got = yield* secrets.getOrCreate("all", bytes(1))
        expect(new Uint8Array(got)).toEqual(all)
        got.fill(0)
        expect(new Uint8Array(yield* secrets.getOrCreate("all", bytes(1)))).toEqual(all)
      }),
    ),
  ],
}
