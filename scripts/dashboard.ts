// Compiles the operator's page into packages/dashboard/src/page/assets.ts; or with `--check` fails if that differs.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { compilePage } from "../packages/dashboard/compilePage.ts"

const committed = join(import.meta.dirname, "../packages/dashboard/src/page/assets.ts")
const compiled = await compilePage()

if (process.argv.includes("--check")) {
  const isCurrent = readFileSync(committed, "utf8") === compiled
  if (!isCurrent) console.log("the compiled page is stale: run `npx -y pnpm@12 dashboard`")
  process.exitCode = isCurrent ? 0 : 1
} else {
  writeFileSync(committed, compiled)
  console.log("wrote packages/dashboard/src/page/assets.ts")
}
