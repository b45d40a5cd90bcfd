import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { plantedBugs } from "./planted/bugs.ts"
import { deliveryBugs } from "./planted/deliveryBugs.ts"
import { type Edit, planting } from "./planted/Edit.ts"
import { flowBugs } from "./planted/flowBugs.ts"
import { scheduleBugs } from "./planted/scheduleBugs.ts"

const run = promisify(execFile)
const root = join(import.meta.dirname, "..")

/** The output of `pnpm simulate` for some seeds with these modules changed. */
const simulate = async (seed: number, runs: number, edits: ReadonlyArray<Edit>) => {
  const flags = ["--seed", String(seed), "--runs", String(runs)]
  const args = ["--conditions=@kiln/source", join(root, "scripts/simulate.ts"), ...flags]
  const env = { ...process.env, ...planting(edits) }
  try {
    return { status: 0, ...(await run(process.execPath, args, { cwd: root, env })) }
  } catch (error) {
    const { code, stderr, stdout } = error as { code: number; stderr: string; stdout: string }
    return { status: code, stdout, stderr }
  }
}

/** The named seed detects it first. If a change elsewhere alters that run, one of the others must. */
const enough = 300

describe("the simulation detects", () => {
  for (const { breaks, bug, edits, seed } of plantedBugs)
    it(bug, async () => {
      const { status, stderr } = await simulate(seed, enough, edits)
      expect(stderr).toContain(`broke "${breaks}"`)
      expect(status).toBe(1)
    })
})

describe("the simulation of schedules detects", () => {
  it.each(scheduleBugs)("$bug", async ({ edits }) => {
    const args = ["--conditions=@kiln/source", join(root, "tests/support/simulateFiveDays.ts")]
    const { stdout } = await run(process.execPath, args, { cwd: root, env: { ...process.env, ...planting(edits) } })
    expect(Number(stdout)).toBeGreaterThan(0)
  })
})

describe("the simulation of flows detects", () => {
  it.each(flowBugs)("$bug", async ({ edits }) => {
    const args = ["--conditions=@kiln/source", join(root, "tests/support/simulateThirtyFlows.ts")]
    const { stdout } = await run(process.execPath, args, { cwd: root, env: { ...process.env, ...planting(edits) } })
    expect(Number(stdout)).toBeGreaterThan(0)
  })
})

describe("the simulation of deliveries detects", () => {
  it.each(deliveryBugs)("$bug", async ({ edits }) => {
    const args = ["--conditions=@kiln/source", join(root, "tests/support/simulateDeliveries.ts")]
    const { stdout } = await run(process.execPath, args, { cwd: root, env: { ...process.env, ...planting(edits) } })
    expect(Number(stdout)).toBeGreaterThan(0)
  })
})

it("a bug whose source text is gone is not reported as missed", async () => {
  const nowhere = { file: "packages/core/src/worker/Worker.ts", from: "no such text", to: "" }
  const { status, stderr } = await simulate(1, 1, [nowhere])
  expect(stderr).toContain("holds 0 times: no such text")
  expect(status).toBe(1)
})

// The seeds of the test command, these among them, run without a bug elsewhere.
it("without a bug, nothing is detected", async () => {
  expect(await simulate(1, 1, [])).toMatchObject({ status: 0, stderr: "" })
})
