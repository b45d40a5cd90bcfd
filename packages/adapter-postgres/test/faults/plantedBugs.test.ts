import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { postgresServer } from "@kiln/postgres-lab"
import { planting } from "../../../../tests/planted/Edit.ts"
import { plantedBugs } from "./support/plantedBugs.ts"

const script = join(import.meta.dirname, "support/reportLostCommits.ts")

const report = async (fault: string, verb: string, env: Readonly<Record<string, string>>): Promise<string> => {
  const args = ["--conditions=@kiln/source", script, await postgresServer(), fault, verb]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: { PATH: process.env["PATH"], ...env } })
  return stdout
}

it.each(plantedBugs)("$bug: noticed", async ({ edits, fault, noticed, verb }) => {
  expect(await report(fault, verb, planting(edits))).toMatch(noticed)
})

it("without a bug there is nothing to notice", async () => {
  expect(await report("answer lost", "claimJobs", {})).toBe("")
})
