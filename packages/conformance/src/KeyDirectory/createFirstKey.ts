import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { KeyDirectory } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"
import { digest, keyId, newApiKey, projectId } from "../fixtures.ts"

const project = (n: number) => ({ id: projectId(n), name: `project ${n}` })

export const firstKey: Section<KeyDirectory> = {
  name: "KeyDirectory.createFirstKey",
  checks: [
    check(
      "creates project and key in an empty directory, once",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        expect(yield* keys.createFirstKey(project(1), newApiKey(1))).toBe(true)
        expect(yield* keys.findKey(digest(1))).toMatchObject({ id: keyId(1), projectId: projectId(1) })
        expect(yield* keys.createFirstKey(project(2), newApiKey(2, { projectId: projectId(2) }))).toBe(false)
        expect([yield* keys.listProjects, yield* keys.listKeys].map((list) => list.length)).toEqual([1, 1])
      }),
    ),

    check(
      "of many concurrent calls, one creates it",
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
      "does nothing if any key exists, even a revoked one",
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
      "creates both or neither: if the project's name is taken, no key is created",
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
