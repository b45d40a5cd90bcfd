import { expect, it, vi } from "vitest"
import { durableOrder } from "./support/durableOrder.ts"
import { killSweep } from "./support/killSweep.ts"
import { describeWith } from "./support/needs.ts"
import { answersBeforeCommit, planted, rowBeforeBlob, unsynced } from "./support/plantedBugs.ts"

describeWith("attach", "a planted bug is caught by the order of durability", () => {
  it.each([...unsynced, answersBeforeCommit, rowBeforeBlob])("$bug", async ({ noticed, ...bug }) => {
    expect((await durableOrder(planted(bug))).violations.join("\n")).toMatch(noticed)
  })
})

describeWith("strace", "a planted bug is caught by kills", () => {
  it.each([answersBeforeCommit, rowBeforeBlob])("$bug", { timeout: 180_000 }, async ({ inWreck, ...bug }) => {
    using _ = vi.spyOn(console, "log").mockReturnValue()
    const sweep = await killSweep({ points: 4, seed: 3, env: planted(bug) })
    expect(sweep.violations.join("\n")).toMatch(inWreck)
  })
})
