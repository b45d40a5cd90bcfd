import { jobKind } from "@kiln/core"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const priced = { name: "priced", request: z.object({}), price: "p" } as const
const twoMeters = jobKind({ ...priced, meters: ["things", "pages"], run: async () => ({ output: {} }) })

describe("prices", () => {
  it.each([
    ["a price name", { name: "q", unitAmounts: {} }, 'no job kind uses the price "q"; did you mean "p"?'],
    [
      "a price name of another case",
      { name: "constructor", unitAmounts: {} },
      'no job kind uses the price "constructor"; did you mean "p"?',
    ],
    [
      "a meter",
      { name: "p", unitAmounts: { things: "1", page: "1" } },
      'no job kind with the price "p" has the meter "page"; did you mean "pages"?',
    ],
    [
      "a meter of another price",
      { name: "p", unitAmounts: { input_characters: "1" } },
      'no job kind with the price "p" has the meter "input_characters"',
    ],
  ])("refuse %s that no kind uses, and suggest the nearest known one", async (_, price, message) => {
    await using engine = await openWith([twoMeters])
    await expect(engine.operator.setPrice({ currency: "usd", ...price })).rejects.toThrow(message)
    expect(await engine.operator.board()).toMatchObject({ prices: {} })
  })

  it("a price that lacks a meter of a kind is set with a warning, and its live jobs are refused before any work", async () => {
    const told: Array<string> = []
    let ran = 0
    const kinds = [
      jobKind({
        ...priced,
        meters: ["things", "pages"],
        run: async () => ({ output: {}, usage: { things: 2, pages: ++ran } }),
      }),
      jobKind({ ...priced, name: "half", meters: ["things"], run: async () => ({ output: {}, usage: { things: 2 } }) }),
    ]
    await using engine = await openWith(kinds, { log: ({ message }) => told.push(message) })
    const live = { mode: "live" } as const
    await engine.operator.setPrice({ name: "p", currency: "usd", unitAmounts: { things: "0.5" } })
    expect(told.join()).toContain("live jobs of these kinds are rejected: priced (lacks pages)")
    await expect(engine.submit("priced", {}, live)).rejects.toMatchObject({ missing: ["price:p"] })
    expect((await engine.submitAndWait("half", {}, live)).billing.amount).toBe("1")
    await engine.operator.setPrice({ name: "p", currency: "usd", unitAmounts: { things: "0.5", pages: "0" } })
    expect((await engine.submitAndWait("priced", {}, live)).billing).toMatchObject({
      amount: "1",
      lineItems: [{ meter: "pages", quantity: 1, unitAmount: "0", amount: "0" }, { meter: "things" }],
    })
  })
})
