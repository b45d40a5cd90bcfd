import { describe, expect, it } from "vitest"
import {
  dailySums,
  maximumCost,
  reservedSums,
  type Spending,
  spendCapProblem,
  spendingOf,
  spendRefusal,
  withinMaximum,
  withinReservation,
  withReservation,
} from "../../src/domain/SpendCap.ts"

/** 15 March 2026, 12:00 UTC. */
const now = Date.UTC(2026, 2, 15, 12)
const march = Date.UTC(2026, 2, 1)
const today = Date.UTC(2026, 2, 15)
const cap = { currency: "usd", day: "10", month: "100" }
const entry = (amount: string, chargedAt: number | null, currency = "usd") => ({ amount, chargedAt, currency })
const spending = (other: Partial<Spending> = {}): Spending => ({
  owner: "prj_a",
  cap,
  reserved: "0",
  day: "0",
  month: "0",
  ...other,
})

describe("a cap to be set", () => {
  const currency = "its currency must be a lower-case ISO 4217 code like usd"
  const amounts = "its amounts must be plain decimals like 25 or 0.50"
  it.each([
    [{}, undefined],
    [{ day: null }, undefined],
    [{ month: null }, undefined],
    [{ day: null, month: null }, "it needs an amount for a day or for a month"],
    [{ currency: "usdt" }, currency],
    [{ currency: "xusd" }, currency],
    [{ currency: ["usd"] as never }, currency],
    [{ month: "-1" }, amounts],
    [{ month: 1 as never }, amounts],
  ])("%j is valid, or the problem is named", (other, problem) =>
    expect(spendCapProblem({ ...cap, ...other })).toBe(problem),
  )
})

describe("the spending under a cap", () => {
  it("counts reservations, and the charges of this day and month, in the cap's currency", () => {
    const entries = [
      entry("1", null),
      entry("2", today),
      entry("4", today - 1),
      entry("8", march),
      entry("16", march - 1),
      entry("32", null, "eur"),
      entry("64", now, "eur"),
    ]
    expect(spendingOf("prj_a", cap, entries, now)).toEqual(spending({ reserved: "1", day: "2", month: "14" }))
  })

  it("grows with a reservation, and with nothing else", () => {
    expect(withReservation(spending({ reserved: "0.1", day: "3" }), "0.2")).toEqual(
      spending({ reserved: "0.3", day: "3" }),
    )
  })
})

describe("daily sums", () => {
  it("add up each day and currency since the beginning of the previous month", () => {
    const february = Date.UTC(2026, 1, 1)
    const entries = [
      entry("1", now),
      entry("2", today),
      entry("4", today - 1),
      entry("8", now, "eur"),
      entry("16", february),
      entry("32", february - 1),
      entry("64", null),
    ]
    expect(dailySums(entries, now)).toEqual([
      entry("3", today),
      entry("4", today - 86_400_000),
      entry("8", today, "eur"),
      entry("16", february),
    ])
  })
})

describe("what unfinished jobs reserve", () => {
  const some = (amount: string, count: number, currency = "usd") => ({ amount, count, currency })

  it("is the sum of its amounts, each as often as it was reserved, less what is free again", () => {
    expect(reservedSums([])).toEqual([])
    expect(
      reservedSums([
        some("0.1", -2),
        some("0.25", 3),
        some("1", 1, "eur"),
        some("0.1", 7),
        some("2", 1),
        some("2", -1),
      ]),
    ).toEqual([entry("1.25", null), entry("1", null, "eur")])
  })

  it("is nothing in a currency of which all is free again", () => {
    expect(reservedSums([some("0.5", 4), some("2", -1)])).toEqual([])
    expect(reservedSums([some("0.5", 0), some("2", -1)])).toEqual([])
  })
})

describe("the maximum cost of a job", () => {
  const price = { name: "a", version: 1, currency: "usd", unitAmounts: { pages: "0.1", images: "0" } }
  it.each([
    [["pages"], { pages: 3 }, "0.3"],
    [["pages", "images", "tokens"], { pages: 3 }, "0.3"],
    [["pages"], {}, undefined],
    [["pages"], null, undefined],
    [["images", "tokens"], null, "0"],
  ])("of the meters %j with at most %j", (meters, usage, most) => expect(maximumCost(price, meters, usage)).toBe(most))
})

describe("a usage above its maximum", () => {
  it("is cut, meter by meter", () => {
    const usage = { pages: 5, images: 1, tokens: 9 }
    expect(withinMaximum(usage, { pages: 3, images: 2 })).toEqual({ pages: 3, images: 1, tokens: 9 })
    expect(withinMaximum(usage, null)).toBe(usage)
  })
})

describe("a charge above the reservation", () => {
  const item = (meter: string, quantity: number, unitAmount: string, amount: string) => ({
    meter,
    quantity,
    unitAmount,
    amount,
  })
  const charge = {
    currency: "usd",
    amount: "1.6",
    lineItems: [item("pages", 6, "0.1", "0.6"), item("free", 9, "0", "0"), item("images", 2, "0.5", "1")],
  }
  const reserved = (amount: string, currency = "usd") => ({ currency, amount })

  it.each([[undefined], [reserved("0", "eur")], [reserved("1.6")], [reserved("2")]])("is kept under %j", (limit) =>
    expect(withinReservation(charge, limit)).toBe(charge),
  )

  it("is cut in the order of its items to what the reservation pays for", () => {
    expect(withinReservation(charge, reserved("1.3"))).toEqual({
      currency: "usd",
      amount: "1.1",
      lineItems: [charge.lineItems[0], charge.lineItems[1], item("images", 1, "0.5", "0.5")],
    })
    expect(withinReservation(charge, reserved("0.25"))).toMatchObject({
      amount: "0.2",
      lineItems: [
        { quantity: 2, amount: "0.2" },
        { quantity: 9, amount: "0" },
        { quantity: 0, amount: "0" },
      ],
    })
  })
})

describe("the refusal of a job", () => {
  const job = (maximumCost: string | undefined, currency = "usd") => ({ currency, maximumCost })
  const refused = { owner: "project", currency: "usd", period: null, resetsAt: null }
  const tomorrow = today + 86_400_000
  const april = Date.UTC(2026, 3, 1)

  it.each([
    ["a job that costs nothing", job("0"), [spending({ day: "10" })]],
    ["a job that reaches a cap exactly", job("4"), [spending({ reserved: "1", day: "5", month: "95" })]],
    ["a job without a daily cap", job("50"), [spending({ cap: { ...cap, day: null } })]],
  ])("does not refuse %s", (_, given, caps) => expect(spendRefusal(given, caps, now)).toBeUndefined())

  it("says that the kind states no maximum, or that the currency differs", () => {
    expect(spendRefusal(job(undefined), [spending()], now)).toEqual({
      ...refused,
      reason: "unbounded",
      maximumCost: null,
    })
    expect(spendRefusal(job("1", "eur"), [spending()], now)).toEqual({
      ...refused,
      reason: "currency",
      currency: "eur",
      maximumCost: "1",
    })
  })

  it("says which period's cap it could pass, and when that ends", () => {
    const byCap = { ...refused, reason: "cap", maximumCost: "10" }
    const at = (other: Partial<Spending>) => spendRefusal(job("10"), [spending(other)], now)
    expect(at({ reserved: "0.01" })).toEqual({ ...byCap, period: "day", resetsAt: tomorrow })
    expect(at({ month: "91" })).toEqual({ ...byCap, period: "month", resetsAt: april })
    expect(at({ cap: { ...cap, day: "9.99" } })).toEqual({ ...byCap, period: "day", resetsAt: null })
  })

  it.each([[["prj_a", "key_a"]], [["key_a", "prj_a"]]] as const)("is the key's before the project's: %j", (owners) => {
    const caps = owners.map((owner) => spending({ owner, day: "10" }))
    expect(spendRefusal(job("1"), caps, now)?.owner).toBe("key")
  })
})
