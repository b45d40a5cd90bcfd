// Writes docs/reference, or with `--check` fails if it differs: `pnpm reference`.
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { build } from "../publish/build.ts"
import { repository } from "../publish/publicPackages.ts"
import { stalePages } from "./compare.ts"
import { doorsOfReference } from "./doors.ts"
import { referencePages } from "./pages.ts"
import { readDoors } from "./readDoors.ts"

build()
const directory = join(repository, "docs/reference")
const doors = doorsOfReference()
const pages = referencePages(doors, readDoors(doors, repository))
if (process.argv.includes("--check")) {
  const stale = stalePages(pages, directory)
  for (const problem of stale) console.log(`docs/reference/${problem}: run \`npx -y pnpm@12 reference\``)
  console.log(`${pages.size} pages compared, ${stale.length} differ`)
  if (stale.length > 0) process.exitCode = 1
} else {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  for (const [file, text] of pages) writeFileSync(join(directory, file), text)
  console.log(`wrote ${pages.size} pages to docs/reference`)
}
