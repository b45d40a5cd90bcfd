import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { KeyDirectory } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { digest, keyId, newApiKey, projectId } from "../fixtures.ts"

const project = (n: number) => ({ id: projectId(n), name: `project ${n}` })

export const keyLife: Section<KeyDirectory> = {
  name: "KeyDirectory.revokeKey, touchKeys",
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
