import { describe, expect, it } from "vitest"
import * as rules from "../src/domain/SpendCap.ts"
import { spendCapProperties } from "./spendCapProperties.ts"

describe("spend caps", () => {
  for (const [name, holds] of Object.entries(spendCapProperties))
    it(name, () => expect(() => holds(rules)).not.toThrow())

  it.each([
    [{ currency: "USD", day: "1", month: null }, "currency"],
    [{ currency: "usd", day: null, month: null }, "an amount"],
    [{ currency: "usd", day: "-1", month: null }, "plain decimals"],
    [{ currency: "usd", day: "1e3", month: "2" }, "plain decimals"],
    [{ currency: "usd", day: 5 as never, month: null }, "plain decimals"],
  ])("%j cannot be set", (cap, problem) => expect(rules.spendCapProblem(cap)).toContain(problem))

  it("a cap of 0 can be set", () =>
    expect(rules.spendCapProblem({ currency: "usd", day: "0", month: null })).toBe(undefined))
})
