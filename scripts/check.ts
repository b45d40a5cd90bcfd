// Runs every static check, also after one failed: `pnpm check`. `node scripts/check.ts FILE` also appends a line
// `name exit-code` to FILE for each.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { appendFileSync } from "node:fs"
import { join } from "node:path"
import { checkLanes, firstChecks, staticChecks } from "./staticChecks.ts"

const [results] = process.argv.slice(2)
const failed: Array<string> = []

/** Runs a check, and prints its output at its end, because two run at a time. */
const check = async (name: string): Promise<void> => {
  const child = spawn(process.execPath, ["--run", name], {
    cwd: join(import.meta.dirname, ".."),
    stdio: ["ignore", "pipe", "pipe"],
  })
  let output = ""
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text))
  await once(child, "close")
  // `null` if a signal ended it.
  const exitCode = child.exitCode ?? 1
  process.stdout.write(`\n== ${name}\n${output}`)
  if (results !== undefined) appendFileSync(results, `${name} ${exitCode}\n`)
  if (exitCode !== 0) failed.push(name)
}

const checkAll = async (names: ReadonlyArray<string>): Promise<void> => {
  for (const name of names) await check(name)
}

await checkAll(firstChecks)
await Promise.all(checkLanes.map(checkAll))
console.log(failed.length === 0 ? `\n${staticChecks.length} checks passed` : `\nfailed: ${failed.join(", ")}`)
process.exitCode = failed.length === 0 ? 0 : 1
