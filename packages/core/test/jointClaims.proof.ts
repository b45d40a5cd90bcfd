import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { type Edit, planting } from "../../../tests/planted/Edit.ts"
import { jointClaimBugs, unharmed } from "./jointClaimBugs.ts"

/** The report of the scenarios, with these bugs planted. */
const reportWith = async (edits: ReadonlyArray<Edit>): Promise<string> => {
  const args = ["--conditions=@kiln/source", join(import.meta.dirname, "support/jointClaimScenario.ts")]
  const env = { PATH: process.env["PATH"], ...planting(edits) }
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  return stdout.trim().split("\n").at(-1) ?? ""
}

describe("creations that claim for an idle worker show", () => {
  it("nothing without a bug", async () => expect(await reportWith([])).toBe(unharmed))

  for (const { bug, edit, from, noticed } of jointClaimBugs)
    it(bug, async () => {
      expect(unharmed).toContain(from)
      expect(await reportWith([edit])).toContain(noticed)
    })
})
