// Generates the honest corpus and probes it: `pnpm audio:honest`.
//
//   --update        decode every file with ffmpeg and rewrite expected.tsv
//   --only PATTERN  only recipes whose names match a regular expression
//   --processes N   number of processes, 2 by default
//   --fixtures      copy the committed selection into test/fixtures/honest again
//   --verbose       list every file that is refused or measured wrong
import { fork } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { recordAll } from "./browsers.ts"
import { readExpected, writeExpected } from "./expected.ts"
import { updateFixtures } from "./fixtures.ts"
import type { Outcome } from "./outcome.ts"
import type { Recipe } from "./Recipe.ts"
import { isUnsupported, recipes } from "./recipes.ts"
import { cacheDirectory, missingTools, npmDirectory } from "./tools.ts"

const { values: options } = parseArgs({
  options: {
    update: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    processes: { type: "string", default: "2" },
    verbose: { type: "boolean", default: false },
    fixtures: { type: "boolean", default: false },
  },
})

/** Seconds that a measurement may differ from a full decode. */
const TOLERANCE_SECONDS = 0.1

/** Runs recipes in several processes. */
const runAll = async (chosen: ReadonlyArray<Recipe>, decode: boolean): Promise<ReadonlyArray<Outcome>> => {
  const outcomes: Array<Outcome> = []
  const processes = Number(options.processes)
  await Promise.all(
    Array.from({ length: processes }, async (_, shard) => {
      const names = chosen.filter((_, index) => index % processes === shard).map(({ name }) => name)
      const worker = fork(new URL("worker.ts", import.meta.url), { execArgv: ["--conditions=@kiln/source"] })
      worker.on("message", (message) => {
        outcomes.push(message as Outcome)
        if (outcomes.length % 100 === 0) console.log(`${outcomes.length} of ${chosen.length}`)
      })
      worker.send({ names, decode })
      const code = await new Promise<number | null>((resolve) => worker.once("exit", resolve))
      if (code !== 0) throw new Error(`a worker exited with ${code}`)
    }),
  )
  return outcomes
}

/** The part of a message that is the same on every machine. */
const reasonOf = (failure: string): string =>
  failure
    .replaceAll(/\S*\/(?:work|files|signals)\/\S+/g, "…")
    .replaceAll(/\[(\w+) @ 0x[\da-f]+\]/g, "$1:")
    .replaceAll(/\s+/g, " ")
    .slice(0, 160)
    .trim()

const only = new RegExp(options.only)
const expected = readExpected()
const wanted = recipes.filter(({ name }) => only.test(name) && (options.update || !expected.excluded.has(name)))
const chosen = wanted.filter(({ tools }) => missingTools(tools).length === 0)
const missing = new Map<string, number>()
for (const recipe of wanted)
  for (const tool of missingTools(recipe.tools)) missing.set(tool, (missing.get(tool) ?? 0) + 1)
for (const [tool, count] of missing) console.log(`${tool} is missing: ${count} files left out`)
const packages = [...missing.keys()].filter((tool) => tool.startsWith("npm:")).map((tool) => tool.slice(4))
if (packages.length > 0) console.log(`npm packages: npm install --prefix ${npmDirectory} ${packages.join(" ")}`)

mkdirSync(cacheDirectory, { recursive: true })
for (const [name, failure] of await recordAll(chosen)) console.log(`not recorded: ${name}: ${failure}`)
const outcomes = new Map((await runAll(chosen, options.update)).map((outcome) => [outcome.name, outcome]))

if (options.update) {
  const seconds = new Map(expected.seconds)
  const excluded = new Map(expected.excluded)
  const known = new Set(recipes.map(({ name }) => name))
  for (const name of [...seconds.keys(), ...excluded.keys()])
    if (!known.has(name)) {
      seconds.delete(name)
      excluded.delete(name)
    }
  for (const recipe of chosen) {
    const { decoded, failure } = outcomes.get(recipe.name) ?? {}
    seconds.delete(recipe.name)
    excluded.delete(recipe.name)
    if (failure !== undefined && !recipe.isLive) excluded.set(recipe.name, reasonOf(failure))
    else if (decoded !== undefined && !recipe.isLive) seconds.set(recipe.name, decoded)
  }
  // The order of the recipes, so that a change shows as a small difference.
  const ordered = <A>(map: ReadonlyMap<string, A>): ReadonlyMap<string, A> =>
    new Map(recipes.flatMap(({ name }) => (map.has(name) ? [[name, map.get(name) as A] as const] : [])))
  writeExpected({ seconds: ordered(seconds), excluded: ordered(excluded) })
}

const now = readExpected()
const refused: Array<string> = []
const off: Array<readonly [number, string]> = []
const failed: Array<string> = []
const damaged: Array<string> = []
const unknown: Array<string> = []
const list: Array<string> = []
const built = new Map<string, { readonly path: string; readonly seconds: number }>()
let total = 0
let unsupported = 0
let cpuMs = 0
let megabytes = 0
for (const recipe of chosen) {
  const outcome = outcomes.get(recipe.name)
  if (outcome === undefined || outcome.failure !== undefined) {
    // Some browsers' recordings are damaged, and each time it is others.
    ;(recipe.isLive ? damaged : failed).push(`${recipe.name}\t${outcome?.failure ?? "no outcome"}`)
    continue
  }
  const seconds = recipe.isLive ? outcome.decoded : now.seconds.get(recipe.name)
  if (seconds === undefined) {
    unknown.push(recipe.name)
    continue
  }
  built.set(recipe.name, { path: outcome.path ?? "", seconds })
  total++
  cpuMs += outcome.probeCpuMs ?? 0
  megabytes += (outcome.bytes ?? 0) / 1e6
  list.push([outcome.path, recipe.format, seconds.toFixed(4), recipe.name].join("\t"))
  if (outcome.refusal !== undefined && isUnsupported(recipe)) unsupported++
  else if (outcome.refusal !== undefined) refused.push(`${outcome.refusal}\t${recipe.name}`)
  else {
    const difference = (outcome.probed ?? NaN) - seconds
    if (!(Math.abs(difference) <= TOLERANCE_SECONDS)) off.push([difference, recipe.name])
  }
}
if (options.only === "") writeFileSync(join(cacheDirectory, "list.tsv"), `${list.join("\n")}\n`)

if (options.fixtures) updateFixtures(built)

const shown = <A>(rows: ReadonlyArray<A>): ReadonlyArray<A> => (options.verbose ? rows : rows.slice(0, 20))
const byReason = new Map<string, number>()
for (const line of refused) {
  const reason = line.split("\t")[0] ?? ""
  byReason.set(reason, (byReason.get(reason) ?? 0) + 1)
}
const byDifference = off.toSorted(([one], [two]) => Math.abs(two) - Math.abs(one))

console.log(`\n${total} files, ${megabytes.toFixed(0)} MB, listed in ${join(cacheDirectory, "list.tsv")}`)
console.log(`${refused.length} refused`)
for (const [reason, count] of [...byReason].toSorted(([, one], [, two]) => two - one))
  console.log(`  ${count} × ${reason}`)
for (const line of shown(refused)) console.log(`    ${line.split("\t")[1]}`)
if (unsupported > 0) console.log(`${unsupported} refused as expected: their codecs are not supported`)
console.log(`${off.length} measured wrong by more than ${TOLERANCE_SECONDS} s`)
for (const [difference, name] of shown(byDifference)) console.log(`    ${difference.toFixed(3)} s  ${name}`)
console.log(`${(cpuMs / 1000).toFixed(1)} s of CPU for probing`)
if (damaged.length > 0) console.log(`${damaged.length} recordings left out, which ffmpeg cannot decode whole`)
if (failed.length > 0)
  console.log(`${failed.length} could not be built or decoded\n    ${shown(failed).join("\n    ")}`)
if (unknown.length > 0)
  console.log(`${unknown.length} are not in expected.tsv; run with --update\n    ${shown(unknown).join("\n    ")}`)
if (refused.length + off.length + failed.length + unknown.length > 0) process.exitCode = 1
