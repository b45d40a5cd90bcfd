import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { KeyDirectory } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { digest, keyId, newApiKey, projectId } from "../fixtures.ts"

const project = (n: number) => ({ id: projectId(n), name: `project ${n}` })

export const keyLife: Section<KeyDirectory> = {
  name: "KeyDirectory.revokeKey, pruneKeys, touchKeys",
  checks: [
    check(
      "revokes at store time, once and permanently",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject(project(1))
        const record = yield* keys.createKey(newApiKey(1))
        yield* keys.createKey(newApiKey(2))
        yield* advance(70)
        const revoked = { ...record, revokedAt: 70 }
        expect(yield* keys.revokeKey(keyId(1))).toEqual(revoked)
        yield* advance(30)
        expect(yield* keys.revokeKey(keyId(1))).toEqual(revoked)
        expect(yield* keys.findKey(digest(1))).toEqual(revoked)
        expect(yield* keys.findKey(digest(2))).toMatchObject({ revokedAt: null })
        expect(yield* keys.revokeKey(keyId(9))).toBe(undefined)
      }),
    ),

    check(
      "removes the keys of a project that expired long enough ago, with all their secrets",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject(project(1))
        yield* keys.createProject(project(2))
        yield* keys.createKey(newApiKey(1, { expiresAt: 50 }))
        yield* keys.createKey(newApiKey(2, { expiresAt: 51 }))
        yield* keys.createKey(newApiKey(3))
        yield* keys.createKey(newApiKey(4, { expiresAt: 50, projectId: projectId(2) }))
        yield* keys.rotateKey({ keyId: keyId(1), secretHash: digest(11), overlapMs: 1_000 })
        yield* advance(60)
        expect(yield* keys.pruneKeys(projectId(1), 11)).toBe(0)
        expect(yield* keys.pruneKeys(projectId(1), 10)).toBe(1)
        expect(yield* keys.pruneKeys(projectId(1), 10)).toBe(0)
        for (const n of [1, 11]) expect(yield* keys.identifyKey(digest(n))).toBe(undefined)
        expect((yield* keys.listKeys).map(({ id }) => id)).toEqual([keyId(2), keyId(3), keyId(4)])
        expect(yield* keys.pruneKeys(projectId(9), 0)).toBe(0)
      }),
    ),

    check(
      "records when keys were last used, and never goes back",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject(project(1))
        yield* keys.createKey(newApiKey(1))
        yield* keys.createKey(newApiKey(2))
        const lastUsed = Effect.map(keys.listKeys, (all) => all.map((key) => key.lastUsedAt))
        yield* keys.touchKeys([
          { keyId: keyId(1), usedAt: 50 },
          { keyId: keyId(9), usedAt: 50 },
        ])
        expect(yield* lastUsed).toEqual([50, null])
        yield* keys.touchKeys([
          { keyId: keyId(1), usedAt: 40 },
          { keyId: keyId(2), usedAt: 60 },
        ])
        expect(yield* lastUsed).toEqual([50, 60])
        yield* keys.touchKeys([
          { keyId: keyId(2), usedAt: 61 },
          { keyId: keyId(2), usedAt: 59 },
        ])
        expect(yield* lastUsed).toEqual([50, 61])
        yield* keys.touchKeys([])
      }),
    ),
  ],
}
