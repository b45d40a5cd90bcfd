import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { lastServedStepMs } from "@kiln/core/rules"
import { Switchboard } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check } from "../Check.ts"

/** The record of kinds served by workers that are gone. */
export const lastServed = check(
  "the time a kind was last served outlives the worker, and is exact after a clean shutdown",
  Effect.gen(function* () {
    const board = yield* Switchboard
    const lastServedAt = Effect.map(board.readBoard, (read) => read.lastServedAt)
    const publish = (workerId: string, liveKinds: ReadonlyArray<string>, ttlMs: number) =>
      board.publishWorker({ workerId, liveKinds, providers: [], ttlMs })
    expect(yield* lastServedAt).toEqual({})
    yield* advance(7)
    yield* publish("a", ["transcription", "voice_turn"], 120_000)
    yield* publish("readiness", [], 0)
    expect(yield* lastServedAt).toEqual({ transcription: 7, voice_turn: 7 })
    // Workers publish repeatedly; a recent time is not replaced.
    yield* advance(lastServedStepMs)
    yield* publish("a", ["transcription", "voice_turn"], 120_000)
    yield* publish("b", ["transcription"], 120_000)
    expect(yield* lastServedAt).toEqual({ transcription: 7, voice_turn: 7 })
    yield* advance(1)
    yield* publish("b", ["transcription"], 120_000)
    expect(yield* lastServedAt).toEqual({ transcription: lastServedStepMs + 8, voice_turn: 7 })
    yield* advance(1)
    yield* publish("a", ["transcription", "voice_turn"], 0)
    const stoppedAt = lastServedStepMs + 9
    expect(yield* lastServedAt).toEqual({ transcription: stoppedAt, voice_turn: stoppedAt })
    yield* advance(3 * 86_400_000)
    expect(yield* lastServedAt).toEqual({ transcription: stoppedAt, voice_turn: stoppedAt })
    expect((yield* board.readBoard).liveKinds).toEqual([])
  }),
)
