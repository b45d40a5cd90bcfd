import { execFile } from "node:child_process"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"

const run = promisify(execFile)
const root = join(import.meta.dirname, "../..")

/** Beyond those of the test command. `KILN_LONG_SEED` begins elsewhere. */
const firstSeed = Number(process.env["KILN_LONG_SEED"] ?? 1_000_001)
/** Of one process. */
const runsAtOnce = 1_000

interface Summary {
  readonly runs: number
  readonly jobs: number
  readonly finished: number
  readonly unreached: ReadonlyArray<string>
}

/** Simulates until there were enough jobs, on all cores. A broken promise ends it with the seed that broke it. */
const simulateJobs = async (store: "memory" | "sqlite", atLeast: number, runsOfOne: number) => {
  const summaries: Array<Summary> = []
  let nextSeed = firstSeed
  let jobs = 0
  const lane = async () => {
    while (jobs < atLeast) {
      const seed = nextSeed
      nextSeed += runsOfOne
      const flags = ["--seed", String(seed), "--runs", String(runsOfOne), "--store", store, "--json"]
      const args = ["--conditions=@kiln/source", join(root, "scripts/simulate.ts"), ...flags]
      const { stdout } = await run(process.execPath, args, { cwd: root, maxBuffer: 2 ** 26 })
      const summary = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "") as Summary
      summaries.push(summary)
      jobs += summary.jobs
      process.stdout.write(`${store}: ${jobs.toLocaleString("en")} jobs, seeds up to ${seed + runsOfOne - 1}\n`)
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, lane))
  const runs = summaries.reduce((sum, summary) => sum + summary.runs, 0)
  process.stdout.write(
    `figure: simulated jobs on ${store} stores: ${jobs.toLocaleString("en")} in ${runs.toLocaleString("en")} runs ` +
      `(seeds ${firstSeed} to ${nextSeed - 1}), 0 promises broken\n`,
  )
  return { jobs, summaries }
}

it("a million jobs on memory stores violate no invariant", { timeout: 4 * 3_600_000 }, async () => {
  const { jobs, summaries } = await simulateJobs("memory", 1_000_000, runsAtOnce)
  expect(jobs).toBeGreaterThanOrEqual(1_000_000)
  for (const { runs, unreached } of summaries) expect([runs, unreached]).toEqual([runsAtOnce, []])
})

it("ten thousand jobs on SQLite files violate no invariant", { timeout: 3_600_000 }, async () => {
  const { jobs } = await simulateJobs("sqlite", 10_000, 100)
  expect(jobs).toBeGreaterThanOrEqual(10_000)
})
