import { expect, it, vi } from "vitest"
import { killSweep } from "./support/killSweep.ts"
import { describeWith } from "./support/needs.ts"

describeWith("strace", "killed at a write call", () => {
  it("loses nothing that was acknowledged, killed at 8 calls spread over a run", async () => {
    // The engines that recover log here what the driver asked for: a job that fails.
    using _ = vi.spyOn(console, "error").mockReturnValue()
    const sweep = await killSweep({ points: 8, seed: 1 })
    expect(sweep.violations).toEqual([])
    expect({ lost: sweep.lost, duplicated: sweep.duplicated }).toEqual({ lost: 0, duplicated: 0 })
    // Really killed, at calls of many kinds, early and late, with jobs accepted, unfinished and finished.
    expect(sweep.points).toHaveLength(8)
    expect(sweep.killed).toBeGreaterThanOrEqual(7)
    expect(new Set(sweep.points.map(({ at }) => at)).size).toBeGreaterThanOrEqual(4)
    const progress = sweep.points.map((point) => point.progress)
    expect(Math.min(...progress)).toBeLessThan(0.3)
    expect(Math.max(...progress)).toBeGreaterThan(0.6)
    expect(sweep.accepted).toBeGreaterThan(12)
    expect(sweep.recovered).toBeGreaterThan(0)
  })
})
