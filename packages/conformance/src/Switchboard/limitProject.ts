import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Switchboard } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"
import { projectId } from "../fixtures.ts"

export const projectLimits: Section<Switchboard> = {
  name: "Switchboard.limitProject",
  checks: [
    check(
      "sets, changes and removes the limit of each project separately, also of one that the store does not know",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const limits = Effect.map(board.readBoard, (read) => read.projectConcurrency)
        expect(yield* limits).toEqual({})
        yield* board.limitProject(projectId(1), 3)
        yield* board.limitProject(projectId(2), 0)
        expect(yield* limits).toEqual({ [projectId(1)]: 3, [projectId(2)]: 0 })
        yield* board.limitProject(projectId(1), 7)
        yield* board.limitProject(projectId(2), null)
        yield* board.limitProject(projectId(3), null)
        expect(yield* limits).toEqual({ [projectId(1)]: 7 })
        expect((yield* board.readBoard).pausedKinds).toEqual([])
      }),
    ),
  ],
}
