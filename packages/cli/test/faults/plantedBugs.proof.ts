import { join } from "node:path"
import { expect, it, vi } from "vitest"
import { durableOrder } from "./support/durableOrder.ts"
import { killSweep } from "./support/killSweep.ts"
import { describeWith } from "./support/needs.ts"

const preload = join(import.meta.dirname, "support/plantedDisk.ts")
const planted = (bug: string) => ({ NODE_OPTIONS: `--import=${preload}`, PLANTED_BUG: bug })

// Promises 1 and 32 of docs/invariants.md.
const lateCommit = "answers are sent before the commit"
const lateBlob = "the row is written before the blob"

describeWith("attach", "the order of durability detects that", () => {
  // A kill does not show the first three: the system keeps what a process wrote, until the power fails.
  it.each([
    ["the log is not synced", /202 before job_\w+ was durable/],
    ["a blob is not synced", /204 before uploads\/\S+ was durable/],
    ["names of blobs are not synced", /a row names jobs\/\S+ before it was durable/],
    [lateCommit, /202 before job_\w+ was durable/],
    [lateBlob, /a row names jobs\/\S+ before it was durable/],
  ])("%s", async (bug, found) => {
    expect((await durableOrder(planted(bug))).violations.join("\n")).toMatch(found)
  })
})

describeWith("strace", "kills detect that", () => {
  it.each([
    [lateCommit, /job_\w+ was accepted and is lost/],
    [lateBlob, /names \S+, which is missing/],
  ])("%s", { timeout: 180_000 }, async (bug, found) => {
    using _ = vi.spyOn(console, "log").mockReturnValue()
    const sweep = await killSweep({ points: 4, seed: 3, env: planted(bug) })
    expect(sweep.violations.join("\n")).toMatch(found)
  })
})
