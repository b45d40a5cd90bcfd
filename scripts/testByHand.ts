// Runs a tier that nothing runs automatically, and prints its figures with the commit: `pnpm test:proof`, `pnpm test:long`. The
// first argument is the tier; the others go to vitest, so that the name of a file runs it alone.
import { execFileSync, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { join } from "node:path"
import { stripVTControlCharacters } from "node:util"

const root = join(import.meta.dirname, "..")
const git = (...args: ReadonlyArray<string>): string =>
  execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim()

const commit = git("rev-parse", "--short=12", "HEAD")
const changed = git("status", "--porcelain") === "" ? "" : ", with uncommitted changes"

const [tier = "", ...others] = process.argv.slice(2)
const vitest = spawn(
  process.execPath,
  [join(root, "node_modules/vitest/vitest.mjs"), "run", "--mode", tier, ...others],
  { cwd: root, stdio: ["ignore", "pipe", "inherit"] },
)
const figures: Array<string> = []
for await (const line of createInterface({ input: vitest.stdout })) {
  const [, figure] = line.split("figure: ")
  const [, total] = /^ +((?:Tests|Duration) .*)$/.exec(stripVTControlCharacters(line)) ?? []
  if (figure !== undefined) figures.push(figure)
  else if (total !== undefined) figures.push(total.replaceAll(/ +/g, " "))
  console.log(line)
}
const status =
  vitest.exitCode ?? (await new Promise<number>((resolve) => vitest.once("exit", (code) => resolve(code ?? 1))))

console.log(`\nAt commit ${commit}${changed}:`)
for (const figure of figures) console.log(`- ${figure}`)
process.exitCode = status
