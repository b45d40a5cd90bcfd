// Checks what differs from a commit, with untracked files: `pnpm check:changed` (HEAD) or `pnpm check:changed main`.
//
// Types are checked everywhere, because a change may break its users; the compiler keeps its results in node_modules/.cache.
// Lint, format and import rules are checked for the changed files alone. `pnpm check` also finds cycles and unused code.
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")
const [base = "HEAD"] = process.argv.slice(2)

const git = (...args: ReadonlyArray<string>): ReadonlyArray<string> =>
  execFileSync("git", args, { cwd: root, encoding: "utf8" }).split("\0").filter(Boolean)

const changed = [
  ...git("diff", "--name-only", "--merge-base", "-z", base),
  ...git("ls-files", "--others", "--exclude-standard", "-z"),
].filter((path) => existsSync(join(root, path)))
const sources = changed.filter((path) => /\.m?[jt]s$/.test(path))
const imported = sources.filter((path) => /^(packages|examples|tests|scripts)\//.test(path))

/** Runs a tool of node_modules/.bin or a script, prints its output at its end, and returns whether it succeeded. */
const run = async (name: string, ...command: ReadonlyArray<string>): Promise<boolean> => {
  const [file = "", ...args] = command
  const started = performance.now()
  const child = spawn(join(root, file), args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] })
  let output = ""
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text))
  await once(child, "close")
  const seconds = ((performance.now() - started) / 1_000).toFixed(1)
  const passed = child.exitCode === 0
  process.stdout.write(passed ? `${name}: passed in ${seconds} s\n` : `${name}: FAILED in ${seconds} s\n${output}`)
  return passed
}

const types = () =>
  run(
    "types",
    "node_modules/.bin/tsc",
    "--noEmit",
    "--incremental",
    "--tsBuildInfoFile",
    "node_modules/.cache/checkChanged.tsbuildinfo",
  )

const others = async (): Promise<boolean> => {
  const results = [
    changed.length === 0 ||
      (await run("format", "node_modules/.bin/oxfmt", "--check", "--no-error-on-unmatched-pattern", ...changed)),
    sources.length === 0 || (await run("lint", "node_modules/.bin/oxlint", ...sources)),
    imported.length === 0 ||
      (await run("boundaries", "node_modules/.bin/node", "scripts/boundaries.ts", "--files", ...imported)),
  ]
  return !results.includes(false)
}

console.log(`${changed.length} files differ from ${base}`)
const results = await Promise.all([types(), others()])
process.exitCode = results.includes(false) ? 1 : 0
