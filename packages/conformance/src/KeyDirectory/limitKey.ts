import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { KeyDirectory } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"
import { digest, keyId, newApiKey, projectId } from "../fixtures.ts"

const create = { perMinute: 120, burst: 60 }
const off = { perMinute: 0, burst: 0 }

export const keyLimits: Section<KeyDirectory> = {
  name: "KeyDirectory.limitKey",
  checks: [
    check(
      "a key has the limits it was created with, and later those it was given last",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject({ id: projectId(1), name: "one" })
        const made = yield* keys.createKey(newApiKey(1, { limits: { create } }))
        expect(made?.limits).toEqual({ create })
        expect((yield* keys.createKey(newApiKey(2)))?.limits).toEqual({})
        expect(yield* keys.findKey(digest(1))).toEqual(made)
        const limited = yield* keys.limitKey(keyId(1), { read: off, upload: create })
        expect(limited).toEqual({ ...made, limits: { read: off, upload: create } })
        expect(yield* keys.findKey(digest(1))).toEqual(limited)
        expect((yield* keys.listKeys).map(({ limits }) => limits)).toEqual([{ read: off, upload: create }, {}])
        expect(yield* keys.limitKey(keyId(1), {})).toEqual({ ...made, limits: {} })
      }),
    ),

    check(
      "an unknown key cannot be limited",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        expect(yield* keys.limitKey(keyId(1), { create })).toBe(undefined)
        expect(yield* keys.listKeys).toEqual([])
      }),
    ),
  ],
}
