// Runs every static check, also after one failed: `pnpm check`.
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { staticChecks } from "./staticChecks.ts"

const failed = staticChecks.filter((name) => {
  console.log(`\n== ${name}`)
  const { status } = spawnSync(process.execPath, ["--run", name], {
    cwd: join(import.meta.dirname, ".."),
    stdio: "inherit",
  })
  return status !== 0
})

console.log(failed.length === 0 ? `\n${staticChecks.length} checks passed` : `\nfailed: ${failed.join(", ")}`)
process.exitCode = failed.length === 0 ? 0 : 1
