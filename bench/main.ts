// Measures kiln beside other job engines, interleaved, in one run: `pnpm bench`. Options are listed in docs/benchmarks.md.
import { execFileSync } from "node:child_process"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { buildPackages, buildPrograms, installPeers, removeOldBuilds } from "./build.ts"
import { type Measured, measure } from "./measure.ts"
import { type BenchOptions, readOptions, usage } from "./options.ts"
import { Places } from "./places.ts"
import { Figures } from "./report/figures.ts"
import { describeMachine } from "./report/machine.ts"
import { writePage } from "./report/page.ts"
import { tableOf } from "./report/table.ts"
import { targetTable } from "./report/targets.ts"
import { firstJobs } from "./workloads/firstJobs.ts"
import { httpWorkloads } from "./workloads/http.ts"
import { programWorkloads } from "./workloads/programs.ts"
import { queueWorkloads } from "./workloads/queues.ts"
import { speechWorkloads } from "./workloads/speech.ts"
import type { Bench } from "./workloads/Workload.ts"

/** Returns the options; `undefined` if there is nothing to measure, which it explains. */
const givenOptions = (): BenchOptions | undefined => {
  try {
    const given = readOptions(process.argv.slice(2))
    if (given === undefined) console.log(usage)
    return given
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : String(error)}; see --help`)
    process.exitCode = 2
    return undefined
  }
}

const runBench = async (options: BenchOptions): Promise<void> => {
  const repository = join(import.meta.dirname, "..")
  const startedAt = performance.now()

  installPeers()
  removeOldBuilds()
  const built = buildPackages(repository)
  const base = options.base === undefined ? built : buildPackages(options.base)
  await using places = new Places()
  using stack = new DisposableStack()
  const bench: Bench = {
    programs: await buildPrograms(),
    kilnOf: (subject) => (subject.role === "base" ? base : built),
    hasBase: options.base !== undefined,
    quick: options.quick,
    long: options.long,
    atEnd: (directory) => stack.defer(() => rmSync(directory, { recursive: true, force: true })),
    place: places.place,
  }

  const workloads = [
    ...queueWorkloads(bench, "sqlite"),
    ...queueWorkloads(bench, "postgres"),
    ...httpWorkloads(bench),
    ...speechWorkloads(bench),
    firstJobs(bench, "sqlite"),
    firstJobs(bench, "postgres"),
    ...programWorkloads(bench),
  ]
    .filter(({ id }) => options.only.test(id))
    .map((workload) => ({
      ...workload,
      subjects: workload.subjects.filter(({ name, role }) => role === "kiln" || options.engines.test(name)),
    }))
  const measured: Array<Measured> = []
  for (const workload of workloads) {
    const from = performance.now()
    const figures = await measure(workload, options.rounds, (line) => console.error(line))
    measured.push(...figures)
    console.log(tableOf(figures))
    console.error(`${workload.id}: ${((performance.now() - from) / 1e3).toFixed(1)} s`)
  }
  const figures = new Figures(measured)
  const targets = targetTable(figures)
  if (targets !== "") console.log(`Targets\n${targets}\n`)
  if (options.json !== undefined)
    writeFileSync(options.json, `${JSON.stringify({ options, measured }, undefined, 2)}\n`)
  if (options.write) {
    await using database = await places.place("postgres")
    const machine = await describeMachine(database.place)
    const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: repository, encoding: "utf8" }).trim()
    writePage({
      docs: join(repository, "docs"),
      figures,
      machine,
      commit,
      rounds: options.rounds,
      quick: options.quick,
    })
  }
  console.log(`took ${Math.round((performance.now() - startedAt) / 1e3)} s`)
}

const options = givenOptions()
if (options !== undefined) await runBench(options)
