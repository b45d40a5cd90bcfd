import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { type Edit, planting } from "../../../tests/planted/Edit.ts"
import { groupCommitBugs, unharmed } from "./groupCommitBugs.ts"

/** How the items of the scenario were settled, with these bugs planted. */
const settledWith = async (edits: ReadonlyArray<Edit>): Promise<string | undefined> => {
  const args = ["--conditions=@kiln/source", join(import.meta.dirname, "support/sharedCalls.ts")]
  const env = { PATH: process.env["PATH"], ...planting(edits) }
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  return stdout.split("\n").find((line) => line.startsWith("settled: "))
}

describe("callers that share calls notice", () => {
  it("nothing without a bug", async () => expect(await settledWith([])).toBe(unharmed))

  for (const { bug, edit, noticed } of groupCommitBugs)
    it(bug, async () => expect(await settledWith([edit])).toBe(noticed))
})
