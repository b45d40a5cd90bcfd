import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Switchboard } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"
import { keyId, projectId } from "../fixtures.ts"

const usd = { currency: "usd", day: "1.5", month: "20" }
const nothing = { reserved: "0", day: "0", month: "0" }

export const spendCaps: Section<Switchboard> = {
  name: "Switchboard.setSpendCap, listSpending",
  checks: [
    check(
      "there is no cap until one is set",
      Effect.gen(function* () {
        const board = yield* Switchboard
        expect(yield* board.listSpending).toEqual([])
        yield* board.setSpendCap(projectId(1), null)
        expect(yield* board.listSpending).toEqual([])
      }),
    ),

    check(
      "lists caps by owner, with nothing spent in a new installation",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* board.setSpendCap(projectId(1), usd)
        yield* board.setSpendCap(keyId(2), { currency: "eur", day: null, month: "3" })
        yield* board.setSpendCap(keyId(1), usd)
        expect(yield* board.listSpending).toEqual([
          { owner: keyId(1), cap: usd, ...nothing },
          { owner: keyId(2), cap: { currency: "eur", day: null, month: "3" }, ...nothing },
          { owner: projectId(1), cap: usd, ...nothing },
        ])
      }),
    ),

    check(
      "a later cap replaces an earlier one, and null removes it",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const other = { currency: "usd", day: null, month: "7" }
        yield* board.setSpendCap(projectId(1), usd)
        yield* board.setSpendCap(projectId(1), other)
        expect(yield* board.listSpending).toEqual([{ owner: projectId(1), cap: other, ...nothing }])
        yield* board.setSpendCap(projectId(1), null)
        yield* board.setSpendCap(projectId(1), null)
        expect(yield* board.listSpending).toEqual([])
      }),
    ),
  ],
}

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
