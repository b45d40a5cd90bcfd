// Runs the long tier and says what it came to, with the commit: `pnpm test:long`. Takes about an hour on two cores.
// Arguments go to vitest; the name of a file runs it alone.
import { execFileSync, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")
const git = (...args: ReadonlyArray<string>): string =>
  execFileSync("git", args, { cwd: root, encoding: "utf8" }).trim()

const commit = git("rev-parse", "--short=12", "HEAD")
const changed = git("status", "--porcelain") === "" ? "" : ", with changes that are not committed"

const vitest = spawn(
  process.execPath,
  [join(root, "node_modules/vitest/vitest.mjs"), "run", "--config", "vitest.long.config.ts", ...process.argv.slice(2)],
  { cwd: root, stdio: ["ignore", "pipe", "inherit"] },
)
const figures: Array<string> = []
for await (const line of createInterface({ input: vitest.stdout })) {
  const [, figure] = line.split("figure: ")
  if (figure !== undefined) figures.push(figure)
  console.log(line)
}
const status =
  vitest.exitCode ?? (await new Promise<number>((resolve) => vitest.once("exit", (code) => resolve(code ?? 1))))

console.log(`\nAt commit ${commit}${changed}:`)
for (const figure of figures) console.log(`- ${figure}`)
process.exitCode = status
