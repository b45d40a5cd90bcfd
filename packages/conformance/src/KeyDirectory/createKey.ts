import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { KeyDirectory } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { digest, newApiKey, projectId } from "../fixtures.ts"

const project = (n: number) => ({ id: projectId(n), name: `project ${n}` })

export const apiKeys: Section<KeyDirectory> = {
  name: "KeyDirectory.createKey, findKey, listKeys",
  checks: [
    check(
      "creates a key and finds it by its secret's hash, which is not shown",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject(project(1))
        yield* advance(5)
        const { secretHash, ...asked } = newApiKey(1, { mode: "live", expiresAt: 9_000 })
        const record = { ...asked, limits: {}, createdAt: 5, revokedAt: null, lastUsedAt: null }
        expect(yield* keys.createKey({ ...asked, secretHash })).toEqual(record)
        expect(yield* keys.findKey(secretHash)).toEqual(record)
        expect(yield* keys.findKey(digest(2))).toBe(undefined)
        expect(yield* keys.listKeys).toEqual([record])
        const anonymous = yield* keys.createKey(newApiKey(2, { name: null, scopes: [] }))
        expect(anonymous).toMatchObject({ name: null, scopes: [], expiresAt: null })
        expect(yield* keys.listKeys).toEqual([record, anonymous])
      }),
    ),

    check(
      "creates no key for an unknown project",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        expect(yield* keys.createKey(newApiKey(1))).toBe(undefined)
        expect(yield* keys.listKeys).toEqual([])
        expect(yield* keys.findKey(newApiKey(1).secretHash)).toBe(undefined)
      }),
    ),

    check(
      "still finds an expired key: the caller decides what that means",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject(project(1))
        const record = yield* keys.createKey(newApiKey(1, { expiresAt: 100 }))
        yield* advance(1_000)
        expect(yield* keys.findKey(digest(1))).toEqual(record)
      }),
    ),
  ],
}
