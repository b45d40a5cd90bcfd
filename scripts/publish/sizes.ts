// Measures the installed size of each package and prints a table: `pnpm sizes`. Takes about two minutes.
import { execFileSync } from "node:child_process"
import { globSync, lstatSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { cpus, tmpdir } from "node:os"
import { basename, join } from "node:path"
import { build as bundle } from "esbuild"
import { build } from "./build.ts"
import { pack, type PackedPackage } from "./pack.ts"
import { repository } from "./publicPackages.ts"
import { runTool } from "./runTool.ts"

const IMPORTS = 10

/** Bytes of the files below a directory, symbolic links aside. */
const bytesBelow = (directory: string): number =>
  globSync("**/*", { cwd: directory })
    .map((path) => lstatSync(join(directory, path)))
    .reduce((sum, entry) => sum + (entry.isFile() ? entry.size : 0), 0)

const megabytes = (bytes: number): string => `${(bytes / 1_000_000).toFixed(bytes < 1_000_000 ? 2 : 1)} MB`

const median = (numbers: ReadonlyArray<number>): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0

/** A project with one package in it, and the others of ours only where that one needs them. */
const install = (root: string, one: PackedPackage, all: ReadonlyArray<PackedPackage>): string => {
  const project = join(root, basename(one.directory))
  mkdirSync(project)
  const overrides = Object.fromEntries(all.map(({ manifest, tarball }) => [manifest.name, `file:${tarball}`]))
  const dependencies = { [one.manifest.name]: `file:${one.tarball}` }
  writeFileSync(
    join(project, "package.json"),
    JSON.stringify({ private: true, type: "module", dependencies, overrides }),
  )
  const { output, status } = runTool("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund"], {
    cwd: project,
  })
  if (status !== 0) throw new Error(`${one.manifest.name} could not be installed:\n${output}`)
  return project
}

/**
 * Additional processor time in milliseconds of a new process that imports the package. Unlike elapsed time, it does not depend
 * on other load.
 */
const importTime = (project: string, name: string): number => {
  const measure = (code: string): number => {
    writeFileSync(join(project, "measured.mjs"), `${code}\nprocess.on("exit", () => console.log(process.cpuUsage()))\n`)
    const times = Array.from({ length: IMPORTS }, () => {
      const { output, status } = runTool(process.execPath, ["measured.mjs"], { cwd: project })
      const { system, user } = /user: (?<user>\d+), system: (?<system>\d+)/.exec(output)?.groups ?? {}
      if (status !== 0) throw new Error(`${name} could not be imported:\n${output}`)
      return (Number(user) + Number(system)) / 1000
    })
    return median(times)
  }
  return measure(`import ${JSON.stringify(name)}`) - measure("")
}

/** Minified bytes of a program, alone and with everything it imports. */
const bundled = async (project: string, contents: string): Promise<string> => {
  const { metafile, outputFiles } = await bundle({
    stdin: { contents, resolveDir: project },
    absWorkingDir: project,
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    platform: "node",
    format: "esm",
    target: "node22",
  })
  const inputs = Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs))
  const own = inputs.filter(([path]) => path.includes("@kiln/")).reduce((sum, [, file]) => sum + file.bytesInOutput, 0)
  const whole = outputFiles.reduce((sum, { contents: { length } }) => sum + length, 0)
  return `${Math.round(own / 1000)} kB of kiln, ${Math.round(whole / 1000)} kB with Effect`
}

const programs = {
  "`createEngine` of `@kiln/core`": `import { createEngine } from "@kiln/core"\nconsole.log(createEngine)`,
  "`decodeFields` of `@kiln/core/kinds`": `import { decodeFields } from "@kiln/core/kinds"\nconsole.log(decodeFields)`,
}

const measure = async (root: string): Promise<void> => {
  await build()
  const packed = pack(join(root, "tarballs"))
  console.log("| Package | tarball | installed, own | installed, with all it needs | packages | import |")
  console.log("|---|---|---|---|---|---|")
  for (const one of packed) {
    const { name } = one.manifest
    const project = install(root, one, packed)
    const modules = join(project, "node_modules")
    const count = globSync(["*/package.json", "@*/*/package.json"], { cwd: modules }).length
    const cells = [
      `\`${name}\``,
      `${Math.round(lstatSync(one.tarball).size / 1000)} kB`,
      megabytes(bytesBelow(join(modules, name))),
      megabytes(bytesBelow(modules)),
      count,
      `${Math.round(importTime(project, name))} ms`,
    ]
    console.log(`| ${cells.join(" | ")} |`)
  }
  console.log("\n| Bundled and minified by esbuild | |\n|---|---|")
  for (const [title, code] of Object.entries(programs)) {
    console.log(`| ${title} | ${await bundled(join(root, "core"), code)} |`)
  }
  const commit = execFileSync("git", ["rev-parse", "--short=12", "HEAD"], { cwd: repository, encoding: "utf8" }).trim()
  const [cpu] = cpus()
  console.log(`\nCommit ${commit}, Node ${process.versions.node}, ${cpus().length} cores (${cpu?.model ?? "unknown"}).`)
}

if (import.meta.main) {
  const root = mkdtempSync(join(tmpdir(), "kiln-sizes-"))
  try {
    await measure(root)
  } finally {
    rmSync(root, { recursive: true })
  }
}
