import { describe, expect, it } from "vitest"
import { type FuzzReport, fuzz } from "./support/fuzz.ts"
import { shapes } from "./support/shapes.ts"
import { targetNames } from "./support/Target.ts"

const each = 100
const seed = 1

const count = Object.keys(shapes).length * each

/** Whatever the clients did, the process lives, holds little and answers others. */
const expectUnharmed = (report: FuzzReport): void => {
  expect(report.failure).toBeUndefined()
  expect(report).toMatchObject({ connections: count, refused: 0, overdue: 0 })
  expect(report.probe.unanswered).toBe(0)
  expect(report.peakMegabytes ?? 0).toBeLessThan(300)
}

describe.each(targetNames)("%s", (target) => {
  it("survives broken and hostile connections of every shape, and answers another client all the while", async () => {
    const report = await fuzz({ target, connections: count, seed })
    expectUnharmed(report)
    // The whole run holds the exact limit; here others work on the machine as well.
    expect(report.probe.target.p99).toBeLessThan(1_000)
  })

  it("the same connections end it when nothing listens for errors of a request any more", async () => {
    const report = await fuzz({
      target,
      connections: 2_000,
      seed,
      only: "a second request without its body, then gone",
      edits: [{ file: "server/nodeListener.ts", from: 'request.on("error", ignore)', to: "" }, ...forgetfulBody],
    })
    expect(report.failure).toContain("aborted")
  })
})

/** The reader of a body takes its listeners off when it has enough, as readers do. */
const forgetfulBody = [
  {
    file: "server/NodeSource.ts",
    from: '  response.on("close", () => body.abandon())',
    to: '  response.on("close", () => body.abandon())\n  message.once("aborted", () => process.nextTick(() => process.nextTick(() => message.off("error", onBroken))))',
  },
]
