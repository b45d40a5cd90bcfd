import { describe, expect, it } from "vitest"
import { planting } from "../../../../tests/planted/Edit.ts"
import { sqliteInstallation } from "../support/installations.ts"
import { commandWith, type OperatorBug, operatorBugs } from "./support/operatorBugs.ts"

const report = async ({ scenario }: OperatorBug, environment: Readonly<Record<string, string>>) => {
  await using installation = await sqliteInstallation()
  return await scenario(installation, commandWith(environment))
}

describe("commands of operators", () => {
  it.each(operatorBugs)("notice: $bug", { timeout: 180_000 }, async (bug) => {
    const { file, from, to } = bug
    expect(await report(bug, {})).toEqual(bug.reported)
    expect(await report(bug, planting([{ file, from, to }]))).not.toEqual(bug.reported)
  })
})
