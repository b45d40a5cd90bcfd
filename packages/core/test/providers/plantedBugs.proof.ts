import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { type Edit, planting } from "../../../../tests/planted/Edit.ts"
import { type PlantedBug, plantedBugs } from "./support/plantedBugs.ts"

const report = async (scenario: PlantedBug["scenario"], edits: ReadonlyArray<Edit>): Promise<string> => {
  const args = ["--conditions=@kiln/source", join(import.meta.dirname, "support", scenario)]
  const env = { PATH: process.env["PATH"], ...planting(edits) }
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  return stdout.trim()
}

describe("the tests fail for a provider guard with a planted bug", () => {
  for (const { bug, edits, noticed, scenario, unharmed } of plantedBugs)
    it(bug, async () => {
      expect(await report(scenario, [])).toBe(unharmed)
      expect(await report(scenario, edits)).toBe(noticed)
    })
})
