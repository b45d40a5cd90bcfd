// Writes every committed file that is generated: `pnpm generate`. These are the scripts of package.json that have a counterpart
// with `:check`, which compares instead of writing.
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")
const { scripts }: { readonly scripts: Readonly<Record<string, string>> } = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8"),
)

for (const name of Object.keys(scripts).filter(
  (each) => each !== "format" && Object.hasOwn(scripts, `${each}:check`),
)) {
  console.log(`== ${name}`)
  const { status } = spawnSync(process.execPath, ["--run", name], { cwd: root, stdio: "inherit" })
  if (status !== 0) throw new Error(`pnpm ${name} failed`)
}
