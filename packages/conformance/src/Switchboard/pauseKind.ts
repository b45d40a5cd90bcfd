import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Switchboard } from "@kiln/core/ports"
import { check, type Section } from "../Check.ts"

export const pausedKinds: Section<Switchboard> = {
  name: "Switchboard.pauseKind",
  checks: [
    check(
      "pauses and resumes each kind separately, listed by name",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const paused = Effect.map(board.readBoard, (read) => read.pausedKinds)
        yield* board.pauseKind("transcription", true)
        yield* board.pauseKind("image_generation", true)
        yield* board.pauseKind("a kind nobody knows", true)
        yield* board.pauseKind("Transcription", true)
        expect(yield* paused).toEqual(["Transcription", "a kind nobody knows", "image_generation", "transcription"])
        yield* board.pauseKind("image_generation", false)
        yield* board.pauseKind("Transcription", false)
        expect(yield* paused).toEqual(["a kind nobody knows", "transcription"])
      }),
    ),

    check(
      "pausing twice has no further effect, and a kind that was never paused can be resumed",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* board.pauseKind("transcription", true)
        yield* board.pauseKind("transcription", true)
        yield* board.pauseKind("voice_turn", false)
        expect((yield* board.readBoard).pausedKinds).toEqual(["transcription"])
        yield* board.pauseKind("transcription", false)
        yield* board.pauseKind("transcription", false)
        expect((yield* board.readBoard).pausedKinds).toEqual([])
      }),
    ),

    check(
      "concurrent pauses are all kept",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const kinds = Array.from({ length: 10 }, (_, n) => `kind_${n}`)
        yield* Effect.forEach(kinds, (kind) => board.pauseKind(kind, true), { concurrency: "unbounded" })
        expect((yield* board.readBoard).pausedKinds).toEqual(kinds)
      }),
    ),
  ],
}
