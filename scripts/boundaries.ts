// Checks which modules import which: `node scripts/boundaries.ts [--json] [root]`, or `node scripts/boundaries.ts --files FILE…`,
// which reads these files and what they import, and finds no cycles.
//
// dependency-cruiser does the reading, .dependency-cruiser.mjs holds the rules. This file adds what the tool cannot say:
// that it really read every source file, and that a package declares what its shipped sources import.
import { globSync, readFileSync } from "node:fs"
import { isBuiltin } from "node:module"
import { join, resolve } from "node:path"
import { cruise, type ICruiseResult, type IModule } from "dependency-cruiser"
import rules from "../.dependency-cruiser.mjs"
import { builtInNames } from "./publish/builtIn.ts"

export interface Violation {
  readonly rule: string
  readonly from: string
  readonly to: string
}

export interface BoundariesReport {
  /** How many source files were read. */
  readonly modules: number
  readonly violations: ReadonlyArray<Violation>
  /** Reasons to distrust the reading itself; empty when every source file was seen. */
  readonly blind: ReadonlyArray<string>
}

const roots = ["packages", "examples", "tests", "scripts"]

/** Reads the tree at `root`. Works in that directory (dependency-cruiser resolves from the current one). */
export const checkBoundaries = async (root: string): Promise<BoundariesReport> => {
  process.chdir(root)
  const { options, ...ruleSet } = rules
  const present = roots.filter((name) => globSync(`${name}/**/*.{ts,mts,js,mjs}`).length > 0)
  const { output } = await cruise(present, { ...options, ruleSet, validate: true, baseDir: root })
  if (typeof output === "string") throw new Error(`dependency-cruiser gave text instead of a result: ${output}`)
  return {
    modules: output.summary.totalCruised,
    violations: dedupe([...broken(output), ...undeclared(output.modules)]),
    blind: blindSpots(output),
  }
}

/** Returns the violations of these files. It does not see cycles that go through others. */
const checkFiles = async (root: string, files: ReadonlyArray<string>): Promise<ReadonlyArray<Violation>> => {
  process.chdir(root)
  const { options, ...ruleSet } = rules
  const { output } = await cruise([...files], { ...options, ruleSet, validate: true, baseDir: root, maxDepth: 1 })
  if (typeof output === "string") throw new Error(`dependency-cruiser gave text instead of a result: ${output}`)
  return dedupe([...broken(output), ...undeclared(output.modules)]).filter(({ from }) => files.includes(from))
}

const broken = (output: ICruiseResult): Array<Violation> =>
  output.summary.violations.map(({ rule, from, to, cycle }) => ({
    rule: rule.name,
    from,
    to: cycle === undefined ? to : cycle.map(({ name }) => name).join(" -> "),
  }))

/** pnpm links the root's dependencies where every package finds them, so a missing declaration only breaks consumers. */
const undeclared = (modules: ReadonlyArray<IModule>): Array<Violation> =>
  modules.flatMap(({ source, dependencies }) => {
    const directory = /^packages\/[^/]+(?=\/src\/)/.exec(source)?.[0]
    if (directory === undefined) return []
    const manifest: Manifest = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"))
    const declared = { ...manifest.dependencies, ...manifest.peerDependencies }
    return dependencies
      .filter(({ module }) => !module.startsWith(".") && !isBuiltin(module))
      .map(({ module }) => packageOf(module))
      .filter((name) => !(name in declared) && !builtInNames(directory).includes(name))
      .map((name) => ({ rule: "declared-dependencies", from: source, to: name }))
  })

interface Manifest {
  readonly dependencies?: Record<string, string>
  readonly peerDependencies?: Record<string, string>
}

const packageOf = (specifier: string): string => specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/")

/** A check that reads nothing finds nothing, so every source file on disk must have been read. */
const blindSpots = (output: ICruiseResult): Array<string> => {
  const seen = new Set(output.modules.map(({ source }) => source))
  const missed = globSync("packages/*/src/**/*.ts").filter((file) => !seen.has(file))
  const empty = globSync("packages/*/package.json")
    .map((file) => file.replace("/package.json", ""))
    .filter((directory) => globSync(`${directory}/src/**/*.ts`).length === 0)
  return [
    ...(output.summary.totalCruised === 0 ? ["0 modules were read"] : []),
    ...(output.summary.totalDependenciesCruised === 0 ? ["0 imports were read"] : []),
    ...missed.map((file) => `${file} was not read`),
    ...empty.map((directory) => `${directory} has no source file`),
  ]
}

const dedupe = (violations: ReadonlyArray<Violation>): Array<Violation> => [
  ...new Map(violations.map((violation) => [JSON.stringify(violation), violation])).values(),
]

if (import.meta.main) {
  const args = process.argv.slice(2)
  const json = args.includes("--json")
  const repository = join(import.meta.dirname, "..")
  const report =
    args[0] === "--files"
      ? { modules: args.length - 1, violations: await checkFiles(repository, args.slice(1)), blind: [] }
      : await checkBoundaries(resolve(args.find((arg) => arg !== "--json") ?? repository))
  if (json) {
    console.log(JSON.stringify(report))
  } else {
    for (const { rule, from, to } of report.violations) console.log(`${rule}: ${from} -> ${to}`)
    for (const reason of report.blind) console.log(`blind: ${reason}`)
    console.log(`${report.modules} modules read, ${report.violations.length} violations`)
  }
  process.exitCode = report.violations.length + report.blind.length === 0 ? 0 : 1
}
