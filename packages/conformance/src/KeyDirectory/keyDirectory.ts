import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { KeyDirectory } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { digest, keyId, newApiKey, projectId } from "../fixtures.ts"

const project = (n: number) => ({ id: projectId(n), name: `project ${n}` })

export const projects: Section<KeyDirectory> = {
  name: "KeyDirectory.createProject, listProjects",
  checks: [
    check(
      "makes projects at store time, and lists them",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        expect(yield* keys.listProjects).toEqual([])
        yield* advance(10)
        expect(yield* keys.createProject(project(2))).toEqual({ ...project(2), createdAt: 10 })
        yield* advance(1)
        yield* keys.createProject(project(1))
        expect(yield* keys.listProjects).toEqual([
          { ...project(2), createdAt: 10 },
          { ...project(1), createdAt: 11 },
        ])
      }),
    ),

    check(
      "a name belongs to one project",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject(project(1))
        expect(yield* keys.createProject({ id: projectId(2), name: "project 1" })).toBe(undefined)
        const made = yield* Effect.forEach([3, 4, 5], (n) => keys.createProject({ id: projectId(n), name: "raced" }), {
          concurrency: "unbounded",
        })
        expect(made.filter((one) => one !== undefined)).toHaveLength(1)
        expect(yield* keys.listProjects).toHaveLength(2)
      }),
    ),
  ],
}

export const apiKeys: Section<KeyDirectory> = {
  name: "KeyDirectory.createKey, findKey, listKeys",
  checks: [
    check(
      "makes a key and finds it by its secret's hash, which it does not show",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject(project(1))
        yield* advance(5)
        const { secretHash, ...asked } = newApiKey(1, { mode: "live", expiresAt: 9_000 })
        const record = { ...asked, createdAt: 5, revokedAt: null, lastUsedAt: null }
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
      "makes none for an unknown project",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        expect(yield* keys.createKey(newApiKey(1))).toBe(undefined)
        expect(yield* keys.listKeys).toEqual([])
        expect(yield* keys.findKey(newApiKey(1).secretHash)).toBe(undefined)
      }),
    ),

    check(
      "finds an expired key still: what that means is the caller's decision",
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

export const firstKey: Section<KeyDirectory> = {
  name: "KeyDirectory.createFirstKey",
  checks: [
    check(
      "makes project and key in an empty directory, once",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        expect(yield* keys.createFirstKey(project(1), newApiKey(1))).toBe(true)
        expect(yield* keys.findKey(digest(1))).toMatchObject({ id: keyId(1), projectId: projectId(1) })
        expect(yield* keys.createFirstKey(project(2), newApiKey(2, { projectId: projectId(2) }))).toBe(false)
        expect([yield* keys.listProjects, yield* keys.listKeys].map((list) => list.length)).toEqual([1, 1])
      }),
    ),

    check(
      "of many at once, one makes it",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        const made = yield* Effect.forEach(
          Array.from({ length: 10 }, (_, n) => n),
          (n) => keys.createFirstKey({ id: projectId(n), name: "default" }, newApiKey(n, { projectId: projectId(n) })),
          { concurrency: "unbounded" },
        )
        expect(made.filter(Boolean)).toHaveLength(1)
        expect([yield* keys.listProjects, yield* keys.listKeys].map((list) => list.length)).toEqual([1, 1])
      }),
    ),

    check(
      "not where any key exists, a revoked one included",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject(project(1))
        yield* keys.createKey(newApiKey(1))
        yield* keys.revokeKey(keyId(1))
        expect(yield* keys.createFirstKey(project(2), newApiKey(2, { projectId: projectId(2) }))).toBe(false)
        expect(yield* keys.listProjects).toHaveLength(1)
      }),
    ),

    check(
      "both or neither: where the project's name is taken, no key is made",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        yield* keys.createProject(project(1))
        expect(
          yield* keys.createFirstKey(
            { id: projectId(2), name: "project 1" },
            newApiKey(1, { projectId: projectId(2) }),
          ),
        ).toBe(false)
        expect(yield* keys.listKeys).toEqual([])
        expect(yield* keys.createFirstKey(project(2), newApiKey(1, { projectId: projectId(2) }))).toBe(true)
      }),
    ),
  ],
}

export const keyLife: Section<KeyDirectory> = {
  name: "KeyDirectory.revokeKey, touchKeys",
  checks: [
    check(
      "revokes at store time, once and for good",
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
      "notes when keys were last used, never going back",
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
