import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Switchboard } from "@kiln/core/ports"
import { advance } from "../arrange.ts"
import { check, type Section } from "../Check.ts"

const audio = {
  name: "svc-audio",
  currency: "usd",
  unitAmounts: { input_characters: "0.000015", output_tokens: "0.00002" },
}
const image = { name: "svc-image", currency: "eur", unitAmounts: { images: "0.011" } }

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
      "prices are independent, and listed by name and version",
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
      "amounts are kept as the exact strings",
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
      "of many versions set concurrently, each has its own number",
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
