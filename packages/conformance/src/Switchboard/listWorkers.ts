import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { WorkerScope } from "@kiln/core/domain"
import { Switchboard } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { standings } from "../fixtures.ts"
import { lastServed } from "./lastServed.ts"

export const workers: Section<Switchboard> = {
  name: "Switchboard.publishWorker",
  checks: [
    check(
      "a kind is live as long as a worker publishes it, to the millisecond",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const liveKinds = Effect.map(board.readBoard, (read) => read.liveKinds.toSorted())
        yield* board.publishWorker({
          workerId: "a",
          liveKinds: ["transcription", "voice_turn"],
          providers: [],
          ttlMs: 1_000,
        })
        yield* advance(500)
        yield* board.publishWorker({ workerId: "b", liveKinds: ["transcription"], providers: [], ttlMs: 1_000 })
        expect(yield* liveKinds).toEqual(["transcription", "voice_turn"])
        yield* advance(499)
        expect(yield* liveKinds).toEqual(["transcription", "voice_turn"])
        yield* advance(1)
        expect(yield* liveKinds).toEqual(["transcription"])
        yield* advance(500)
        expect(yield* liveKinds).toEqual([])
      }),
    ),

    lastServed,

    check(
      "a worker's latest publication replaces its earlier ones",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* board.publishWorker({ workerId: "a", liveKinds: ["transcription"], providers: [], ttlMs: 1_000 })
        yield* board.publishWorker({ workerId: "a", liveKinds: ["voice_turn"], providers: [], ttlMs: 2_000 })
        expect((yield* board.readBoard).liveKinds).toEqual(["voice_turn"])
        yield* advance(1_999)
        expect((yield* board.readBoard).liveKinds).toEqual(["voice_turn"])
        yield* board.publishWorker({ workerId: "a", liveKinds: [], providers: [], ttlMs: 2_000 })
        expect((yield* board.readBoard).liveKinds).toEqual([])
      }),
    ),
  ],
}

const scope: WorkerScope = {
  slots: 8,
  share: 6,
  perProject: 0,
  forcedOff: ["ai"],
  kinds: [
    {
      kind: "speech_synthesis",
      fromVersion: 1,
      toVersion: 2,
      modes: ["live", "sandbox"],
      providers: ["speech"],
      switches: ["ai", "audio"],
      limit: null,
      rates: [{ provider: "speech", limit: 10, perMs: 1_000 }],
    },
  ],
}

const published = Effect.flatMap(Switchboard, (board) => board.listWorkers)
const liveUntil = (workerId: string, ttlMs: number) =>
  Effect.flatMap(Switchboard, (board) =>
    board.publishWorker({ workerId, liveKinds: ["transcription"], providers: standings, ttlMs }),
  )
const idsOf = Effect.map(published, (workers) => workers.map((worker) => worker.workerId))

export const publishedWorkers: Section<Switchboard> = {
  name: "Switchboard.listWorkers",
  checks: [
    check(
      "lists what each worker published last, by its id",
      Effect.gen(function* () {
        const board = yield* Switchboard
        expect(yield* published).toEqual([])
        const paused = standings.filter(({ status }) => status === "paused")
        yield* board.publishWorker({ workerId: "b", liveKinds: ["b", "a"], providers: standings, ttlMs: 1_000 })
        yield* board.publishWorker({ workerId: "a", liveKinds: [], providers: [], ttlMs: 1_000 })
        yield* board.publishWorker({ workerId: "B", liveKinds: ["c"], providers: paused, ttlMs: 1_000 })
        expect(yield* published).toEqual([
          { workerId: "B", liveKinds: ["c"], providers: paused },
          { workerId: "a", liveKinds: [], providers: [] },
          { workerId: "b", liveKinds: ["b", "a"], providers: standings },
        ])
        yield* board.publishWorker({ workerId: "b", liveKinds: [], providers: paused.slice(0, 1), ttlMs: 1_000 })
        expect((yield* published).at(-1)).toEqual({ workerId: "b", liveKinds: [], providers: paused.slice(0, 1) })
      }),
    ),

    check(
      "what a worker serves is published with it, and replaced with it",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const entry = { workerId: "a", liveKinds: [], providers: [] }
        yield* board.publishWorker({ ...entry, scope, ttlMs: 1_000 })
        expect(yield* published).toEqual([{ ...entry, scope }])
        const state = {
          version: "1.2.3",
          draining: true,
          lastClaimAt: null,
          free: { live: 0, sandbox: 8 },
          loopLagMs: 1.5,
        }
        yield* board.publishWorker({ ...entry, scope: { ...scope, state }, ttlMs: 1_000 })
        expect(yield* published).toEqual([{ ...entry, scope: { ...scope, state } }])
        const drained = { ...scope, kinds: [] }
        yield* board.publishWorker({ ...entry, scope: drained, ttlMs: 1_000 })
        expect(yield* published).toEqual([{ ...entry, scope: drained }])
        yield* board.publishWorker({ ...entry, ttlMs: 1_000 })
        expect(yield* published).toEqual([entry])
      }),
    ),

    check(
      "until its time ends, to the millisecond",
      Effect.gen(function* () {
        yield* liveUntil("a", 1_000)
        yield* advance(1)
        yield* liveUntil("b", 1_000)
        yield* advance(998)
        expect(yield* idsOf).toEqual(["a", "b"])
        yield* advance(1)
        expect(yield* idsOf).toEqual(["b"])
        yield* advance(1)
        expect(yield* idsOf).toEqual([])
        yield* liveUntil("a", 1)
        expect(yield* idsOf).toEqual(["a"])
      }),
    ),

    check(
      "publishing for 0 ms withdraws a worker's entry, and others stay",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* liveUntil("a", 60_000)
        yield* liveUntil("b", 60_000)
        yield* board.publishWorker({ workerId: "a", liveKinds: [], providers: [], ttlMs: 0 })
        expect(yield* idsOf).toEqual(["b"])
        yield* liveUntil("b", 0)
        yield* liveUntil("c", 0)
        expect(yield* idsOf).toEqual([])
        expect((yield* board.readBoard).liveKinds).toEqual([])
      }),
    ),

    check(
      "agrees with the board about kinds",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* board.publishWorker({ workerId: "a", liveKinds: ["y", "x"], providers: [], ttlMs: 2 })
        yield* board.publishWorker({ workerId: "b", liveKinds: ["x", "z"], providers: [], ttlMs: 1 })
        for (const expected of [["x", "y", "z"], ["x", "y"], []]) {
          const kinds = (yield* published).flatMap((worker) => worker.liveKinds)
          expect([...new Set(kinds)].toSorted()).toEqual(expected)
          expect((yield* board.readBoard).liveKinds).toEqual(expected)
          yield* advance(1)
        }
      }),
    ),
  ],
}
