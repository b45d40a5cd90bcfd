import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Switchboard } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"

export const switches: Section<Switchboard> = {
  name: "Switchboard.readBoard, setSwitch",
  checks: [
    check(
      "everything is off in a new installation",
      Effect.gen(function* () {
        const board = yield* Switchboard
        expect(yield* board.readBoard).toEqual({
          switches: { ai: false, audio: false, images: false },
          prices: {},
          liveKinds: [],
          lastServedAt: {},
          pausedKinds: [],
          projectConcurrency: {},
        })
        expect(yield* board.listPrices).toEqual([])
      }),
    ),

    check(
      "turns each switch on and off by itself",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const { readBoard } = board
        yield* board.setSwitch("audio", true)
        yield* board.setSwitch("audio", true)
        expect((yield* readBoard).switches).toEqual({ ai: false, audio: true, images: false })
        yield* board.setSwitch("ai", true)
        yield* board.setSwitch("audio", false)
        expect((yield* readBoard).switches).toEqual({ ai: true, audio: false, images: false })
      }),
    ),

    check(
      "keeps switches of any kind, on or off",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const { readBoard } = board
        yield* board.setSwitch("exports", true)
        yield* board.setSwitch("constructor", false)
        const builtIn = { ai: false, audio: false, images: false }
        expect((yield* readBoard).switches).toEqual({ ...builtIn, exports: true, constructor: false })
        yield* board.setSwitch("exports", false)
        yield* board.setSwitch("audio", true)
        expect((yield* readBoard).switches).toEqual({
          ...builtIn,
          audio: true,
          exports: false,
          constructor: false,
        })
      }),
    ),
  ],
}
