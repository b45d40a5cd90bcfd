import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { KeyDirectory } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { projectId } from "../fixtures.ts"

const project = (n: number) => ({ id: projectId(n), name: `project ${n}` })

export const projects: Section<KeyDirectory> = {
  name: "KeyDirectory.createProject, listProjects",
  checks: [
    check(
      "creates projects at store time, and lists them",
      Effect.gen(function* () {
        const keys = yield* KeyDirectory
        expect(yield* keys.listProjects).toEqual([])
        yield* advance(10)
        expect(yield* keys.createProject(project(2))).toEqual({ ...project(2), createdAt: 10, disabledAt: null })
        yield* advance(1)
        yield* keys.createProject(project(1))
        expect(yield* keys.listProjects).toEqual([
          { ...project(2), createdAt: 10, disabledAt: null },
          { ...project(1), createdAt: 11, disabledAt: null },
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
