import { describe, expect, it } from "vitest"
import { chargeFor, priceProblem, uncoveredMeters } from "../../src/domain/Billing.ts"
import { billingOf } from "../../src/domain/Job.ts"

const price = {
  name: "svc-audio",
  version: 1,
  currency: "usd",
  unitAmounts: { input_characters: "0.000015", images: "0.04", pages: "0.1" },
}

describe("a price", () => {
  const named = "its name must be 1 to 64 letters, digits, hyphens, dots and underscores"
  const currency = "its currency must be a lower-case ISO 4217 code like usd"
  it.each([
    [{}, undefined],
    [{ name: "a" }, undefined],
    [{ name: "a.b_c-2".padEnd(64, "x") }, undefined],
    [{ name: "" }, named],
    [{ name: "x".repeat(65) }, named],
    [{ name: "svc audio" }, named],
    [{ name: "svc/" }, named],
    [{ currency: "USD" }, currency],
    [{ currency: "us" }, currency],
    [{ currency: "usdt" }, currency],
    [{ unitAmounts: {} }, undefined],
    [{ unitAmounts: { images: "1", pages: "-1" } }, "the amount of pages must be a plain decimal like 0.0001"],
    [{ unitAmounts: { pages: 0.1 as never } }, "the amount of pages must be a plain decimal like 0.0001"],
  ])("with %j can be set, or the problem is named", (other, problem) => {
    expect(priceProblem({ ...price, ...other })).toBe(problem)
  })

  it("lacks the meters that it does not name", () => {
    expect(uncoveredMeters(price, ["pages", "output_tokens", "constructor"])).toEqual(["output_tokens", "constructor"])
  })
})

describe("a charge", () => {
  it("lists the built-in meters in their order, then others by name, and sums exactly", () => {
    const usage = { tables: 2, pages: 3, images: 1, output_tokens: 7, input_characters: 3 }
    const item = (meter: string, quantity: number, unitAmount: string, amount: string) => ({
      meter,
      quantity,
      unitAmount,
      amount,
    })
    expect(chargeFor(price, usage)).toEqual({
      currency: "usd",
      amount: "0.340045",
      lineItems: [
        item("input_characters", 3, "0.000015", "0.000045"),
        item("output_tokens", 7, "0", "0"),
        item("images", 1, "0.04", "0.04"),
        item("pages", 3, "0.1", "0.3"),
        item("tables", 2, "0", "0"),
      ],
    })
  })
})

describe("the bill of a job", () => {
  const live = { mode: "live", status: "queued", price: { currency: "eur" }, charge: null } as const
  const charge = { currency: "chf", amount: "2", lineItems: [] }
  const free = { status: "not_charged", amount: "0", lineItems: [] }
  const pending = { status: "pending", amount: null, lineItems: [] }
  it.each([
    [live, { ...pending, currency: "eur" }],
    [{ ...live, status: "processing", price: null } as const, { ...pending, currency: "usd" }],
    [{ ...live, status: "failed" } as const, { ...free, currency: "eur" }],
    [{ ...live, status: "done" } as const, { ...free, currency: "eur" }],
    [{ ...live, mode: "sandbox" } as const, { ...free, currency: "eur" }],
    [{ ...live, status: "done", charge } as const, { status: "charged", ...charge }],
  ])("%j", (job, bill) => expect(billingOf(job, "usd")).toEqual(bill))
})
