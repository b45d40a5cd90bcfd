import { assert, beforeAll, describe, it } from "@effect/vitest"
import { createHash } from "node:crypto"
import { hostileCases } from "./cases.ts"
import { check, type Finding } from "./check.ts"
import { measureCost, sampledCostFiles } from "./costs.ts"
import { cacheDirectory, encodeMaterials, ffmpegVersion, hostileFormats, loadMaterials } from "./materials.ts"
import { Oracle } from "./Oracle.ts"

const version = ffmpegVersion()

/** Variants of each format. `pnpm audio:hostile` checks more. */
const VARIANTS = 150
const SEED = 1

// Skipped without ffmpeg, as the title says.
describe.skipIf(version === undefined)(
  `compared with ffmpeg${version === undefined ? ", which is not installed" : ""}`,
  () => {
    let directory = ""

    beforeAll(async () => {
      directory = cacheDirectory(version ?? "")
      await encodeMaterials(directory)
    })

    it.each(hostileFormats)("%s: no variant is measured shorter than it plays", async (format) => {
      const materials = loadMaterials(directory)
      const oracle = new Oracle(directory)
      const findings: Array<Finding> = []
      for (let index = 0; index < VARIANTS; index++)
        findings.push(await check(materials, oracle, { format, seed: SEED, index }))
      const isBad = ({ verdict }: Finding): boolean => verdict !== "refused" && verdict !== "right"
      const bad = findings.filter(isBad).map(({ edits, index, measured, played, reason, verdict }) => ({
        variant: `${SEED}-${index}`,
        verdict,
        measured,
        played,
        edits,
        reason,
      }))
      assert.deepStrictEqual(bad, [])
      // If the probe refused nearly everything, or ffmpeg played nothing, this would show little.
      assert.isAtLeast(findings.filter(({ played }) => played > 0).length, VARIANTS / 20)
    })

    it("the default tier's files play as long as it says", async () => {
      const oracle = new Oracle(directory)
      const wrong: Array<string> = []
      for (const { file, format, name, seconds } of hostileCases) {
        const bytes = file()
        const sha256 = createHash("sha256").update(bytes).digest("hex")
        const played = await oracle.play(bytes, format, sha256)
        if (played.seconds < Math.min(0.95 * seconds, Oracle.limits.playedSeconds))
          wrong.push(`${name}: ${played.seconds} s`)
      }
      assert.deepStrictEqual(wrong, [])
    })
  },
)

describe("25 MiB that ask for work", () => {
  it.each(sampledCostFiles)("$name", async (file) => {
    const { cpuMs, gapMs, outcome, reason } = await measureCost(file)
    assert.notStrictEqual(outcome, "died", reason)
    // Half a second and 20 ms on an idle machine, with room for compilation and a busy one.
    assert.isBelow(cpuMs, 2000)
    assert.isBelow(gapMs, 200)
  })
})
