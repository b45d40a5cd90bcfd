import { expect } from "vitest"
import type { MoneyStormOptions, MoneyStormReport } from "./moneyStorm.ts"

/** What every storm must come to. */
export const expectMoney = (report: MoneyStormReport, { jobs }: MoneyStormOptions): void => {
  const { expected, expectedOfAudio, violations } = report
  expect(violations.slice(0, 10)).toEqual([])
  expect(report).toMatchObject({
    accepted: jobs + Math.floor(jobs / 10),
    sandbox: Math.floor(jobs / 10),
    charges: report.done,
    failed: jobs - report.done,
    ledger: expected,
    jsonl: expected,
    csv: expected,
    polled: expectedOfAudio,
  })
  expect(report.failed, "some were refused").toBeGreaterThan(0)
  expect(report.failed).toBeLessThan(jobs / 10)
  expect(expected, "to the last digit").toMatch(/\.\d{30,}$/)
  expect(report.kills).toBeGreaterThan(0)
  expect(report.lostWorkers, "the kills hit running jobs").toBeGreaterThan(0)
}
