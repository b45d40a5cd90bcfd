import { expect, inject, it } from "vitest"
import { sqliteStore } from "../crash/support/LabStore.ts"
import { expectMoney } from "./support/expectMoney.ts"
import { stormOfMoney } from "./support/moneyStorm.ts"
import { exactSum, exactTimes } from "./support/exactSum.ts"

it("the arithmetic of these tests is exact", () => {
  expect(exactSum([])).toBe("0")
  expect(exactSum(["0.1", "0.2", "10", "0.70"])).toBe("11")
  expect(exactTimes("0.000000000000000000001", 4096)).toBe("0.000000000000000004096")
  expect(exactSum(["99999999999999999999.9", "0.1"])).toBe("100000000000000000000")
  expect(() => exactSum(["1e3"])).toThrow("no amount")
})

// The proof tier has the time for more.
const [jobs, killEveryMs] = inject("tier") === "proof" ? [1_000, 2_500] : [400, 1_000]

it(`${jobs} live jobs under kills and a failing provider: ledger, export and polls are usage times price to the last digit`, async () => {
  const options = { jobs, killEveryMs, kills: 4, seed: 1, makeStore: sqliteStore }
  const report = await stormOfMoney(options)
  console.info(`money under kills: ${JSON.stringify(report)}`)
  expectMoney(report, options)
})
