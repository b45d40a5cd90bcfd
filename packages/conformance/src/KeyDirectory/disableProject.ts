import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { KeyDirectory } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { digest, newApiKey, projectId } from "../fixtures.ts"

const project = (n: number) => ({ id: projectId(n), name: `project ${n}` })

export const disabledProjects: Section<KeyDirectory> = {
  name: "KeyDirectory.disableProject",
  checks: [
    check(
      "the keys of a disabled project count as unknown, those of others do not, until it is enabled",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        const one = yield* keys.createProject(project(1))
        const two = yield* keys.createProject(project(2))
        const [first, second] = [
          yield* keys.createKey(newApiKey(1)),
          yield* keys.createKey(newApiKey(2, { projectId: projectId(2) })),
        ]
        yield* advance(50)
        const disabled = { ...one, disabledAt: 50 }
        expect(yield* keys.disableProject(projectId(1), true)).toEqual(disabled)
        expect(yield* keys.findKey(digest(1))).toBe(undefined)
        expect(yield* keys.findKey(digest(2))).toEqual(second)
        expect(yield* keys.listProjects).toEqual([disabled, two])
        expect(yield* keys.listKeys).toEqual([first, second])
        expect(yield* keys.identifyKey(digest(1))).toEqual({ key: first, validUntil: null })
        yield* advance(50)
        expect(yield* keys.disableProject(projectId(1), true)).toEqual(disabled)
        expect(yield* keys.disableProject(projectId(1), false)).toEqual(one)
        expect(yield* keys.disableProject(projectId(1), false)).toEqual(one)
        expect(yield* keys.findKey(digest(1))).toEqual(first)
        expect(yield* keys.disableProject(projectId(9), true)).toBe(undefined)
      }),
    ),
  ],
}
