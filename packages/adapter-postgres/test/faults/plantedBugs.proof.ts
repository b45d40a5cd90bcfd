import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { postgresServer } from "@kiln/postgres-lab"
import { planting } from "../../../../tests/planted/Edit.ts"
import { type PlantedBug, plantedBugs } from "./support/plantedBugs.ts"

type Run = Pick<PlantedBug, "scenario" | "arguments">

const report = async (run: Run, env: Readonly<Record<string, string>> = {}): Promise<string> => {
  const script = join(import.meta.dirname, "support", run.scenario)
  const args = ["--conditions=@kiln/source", script, await postgresServer(), ...run.arguments]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: { PATH: process.env["PATH"], ...env } })
  return stdout
}

it.each(plantedBugs)("$bug: noticed", { timeout: 180_000 }, async ({ edits, noticed, ...run }) => {
  expect(await report(run, planting(edits))).toMatch(noticed)
})

it.each([
  { scenario: "reportLostCommits.ts", arguments: ["answer lost", "claimJobs"] },
  { scenario: "reportClaims.ts", arguments: [] },
  ...plantedBugs.filter(({ scenario }) => scenario === "reportEnds.ts"),
] satisfies ReadonlyArray<Run>)("without a bug, $arguments reports nothing", { timeout: 180_000 }, async (run) => {
  expect(await report(run)).toBe("")
})
