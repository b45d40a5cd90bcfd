import { expect, it, vi } from "vitest"
import { killSweep } from "./support/killSweep.ts"
import { describeWith } from "./support/needs.ts"

const seed = 1

describeWith("strace", "killed at a write call", () => {
  it("loses nothing that was acknowledged, killed at 200 calls spread over a run", { timeout: 3_600_000 }, async () => {
    const log = vi.spyOn(console, "log").mockReturnValue()
    const sweep = await killSweep({ points: 200, seed })
    log.mockRestore()
    const { accepted, calls, duplicated, killed, lost, points, recovered } = sweep
    const places = new Set(points.map(({ at }) => at)).size
    process.stdout.write(
      `figure: kill points on SQLite (seed ${seed}): ${points.length} points (${killed} killed, ${places} places, ${calls} write calls a run), ` +
        `${accepted} jobs acknowledged, ${recovered} recovered, ${lost} lost, ${duplicated} duplicated\n`,
    )
    expect(sweep.violations).toEqual([])
    expect({ lost, duplicated }).toEqual({ lost: 0, duplicated: 0 })
    expect(killed).toBeGreaterThanOrEqual(190)
    expect(places).toBeGreaterThanOrEqual(20)
  })
})
