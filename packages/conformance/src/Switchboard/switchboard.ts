import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Switchboard } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"
import { standings } from "../fixtures.ts"
import { lastServed } from "./lastServed.ts"

const audio = {
  name: "svc-audio",
  currency: "usd",
  unitAmounts: { input_characters: "0.000015", output_tokens: "0.00002" },
}
const image = { name: "svc-image", currency: "eur", unitAmounts: { images: "0.011" } }

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
  ],
}

export const prices: Section<Switchboard> = {
  name: "Switchboard.setPrice, activatePrice, listPrices",
  checks: [
    check(
      "a new price is not active until activated",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* advance(3)
        const version = { ...audio, version: 1, active: false, createdAt: 3 }
        expect(yield* board.setPrice(audio)).toEqual(version)
        expect((yield* board.readBoard).prices).toEqual({})
        expect(yield* board.activatePrice("svc-audio", true)).toBe(true)
        expect((yield* board.readBoard).prices).toEqual({ "svc-audio": { ...audio, version: 1 } })
        expect(yield* board.listPrices).toEqual([{ ...version, active: true }])
      }),
    ),

    check(
      "an active price stays active with its new version, an inactive one stays inactive",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const dearer = { ...audio, unitAmounts: { input_characters: "0.1" } }
        yield* board.setPrice(audio)
        expect(yield* board.setPrice(dearer)).toMatchObject({ version: 2, active: false })
        expect((yield* board.readBoard).prices).toEqual({})
        yield* board.activatePrice("svc-audio", true)
        expect((yield* board.readBoard).prices).toEqual({ "svc-audio": { ...dearer, version: 2 } })
        expect(yield* board.setPrice(audio)).toMatchObject({ version: 3, active: true })
        expect((yield* board.readBoard).prices).toEqual({ "svc-audio": { ...audio, version: 3 } })
        expect((yield* board.listPrices).map(({ version, active }) => [version, active])).toEqual([
          [1, false],
          [2, false],
          [3, true],
        ])
      }),
    ),

    check(
      "can be deactivated, and activated again with the latest version",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* board.setPrice(audio)
        yield* board.activatePrice("svc-audio", true)
        expect(yield* board.activatePrice("svc-audio", false)).toBe(true)
        expect((yield* board.readBoard).prices).toEqual({})
        yield* board.setPrice({ ...audio, currency: "eur" })
        yield* board.activatePrice("svc-audio", true)
        expect((yield* board.readBoard).prices["svc-audio"]).toMatchObject({ version: 2, currency: "eur" })
      }),
    ),

    check(
      "a price that was never set cannot be activated",
      Effect.gen(function* () {
        const board = yield* Switchboard
        expect(yield* board.activatePrice("svc-audio", true)).toBe(false)
        expect(yield* board.activatePrice("svc-audio", false)).toBe(false)
        expect((yield* board.readBoard).prices).toEqual({})
      }),
    ),

    check(
      "prices are apart from each other, and listed by name and version",
      Effect.gen(function* () {
        const board = yield* Switchboard
        yield* board.setPrice(image)
        for (let n = 0; n < 11; n++) yield* board.setPrice(audio)
        yield* board.activatePrice("svc-image", true)
        expect((yield* board.readBoard).prices).toEqual({ "svc-image": { ...image, version: 1 } })
        expect((yield* board.listPrices).map(({ name, version }) => `${name} ${version}`)).toEqual([
          ...Array.from({ length: 11 }, (_, n) => `svc-audio ${n + 1}`),
          "svc-image 1",
        ])
      }),
    ),

    check(
      "amounts stay the very strings they were",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const unitAmounts = {
          input_characters: "0.0000000000000000000001",
          images: "100000000000000000000.10",
          output_tokens: "0",
        }
        yield* board.setPrice({ ...audio, unitAmounts })
        expect((yield* board.listPrices)[0]?.unitAmounts).toEqual(unitAmounts)
      }),
    ),

    check(
      "of many versions set at once, each has its number",
      Effect.gen(function* () {
        const board = yield* Switchboard
        const set = yield* Effect.forEach(Array.from({ length: 10 }), () => board.setPrice(audio), {
          concurrency: "unbounded",
        })
        expect(set.map(({ version }) => version).toSorted((a, b) => a - b)).toEqual(
          Array.from({ length: 10 }, (_, n) => n + 1),
        )
      }),
    ),
  ],
}

export const workers: Section<Switchboard> = {
  name: "Switchboard.publishWorker",
  checks: [
    check(
      "a kind is live as long as some worker says so, to the millisecond",
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
      "a worker's latest word replaces its earlier ones",
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
      "until its time is up, to the millisecond",
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
      "for no time at all, a publication is taken back, and others stay",
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
      "says of the kinds what the board says",
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
