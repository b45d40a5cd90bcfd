import { describe, expect, it } from "vitest"
import { type FuzzReport, fuzz } from "./support/fuzz.ts"
import { shapes } from "./support/shapes.ts"
import { megabytesAllowed, targetNames } from "./support/Target.ts"

const each = 100
const seed = 1

const count = Object.keys(shapes).length * each

/** Whatever the clients did, the process lives, holds little and answers others. */
const expectUnharmed = (report: FuzzReport): void => {
  expect(report.failure).toBeUndefined()
  expect(report).toMatchObject({ connections: count, refused: 0, overdue: 0 })
  expect(report.probe.unanswered).toBe(0)
  expect(report.peakMegabytes ?? 0).toBeLessThan(megabytesAllowed)
}

describe.each(targetNames)("%s", (target) => {
  it("survives broken and hostile connections of every kind, and answers another client meanwhile", async () => {
    const report = await fuzz({ target, connections: count, seed })
    expectUnharmed(report)
    // The whole run holds the exact limit; here others work on the machine as well.
    expect(report.probe.target.p99).toBeLessThan(1_000)
  })
})
