// Writes docs/reference, or with `--check` fails if it differs: `pnpm reference`.
import { globSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { difference } from "../openapi.ts"
import { build } from "../publish/build.ts"
import { repository } from "../publish/publicPackages.ts"
import { doorsOfReference } from "./doors.ts"
import { referencePages } from "./pages.ts"
import { readDoors } from "./readDoors.ts"

const directory = join(repository, "docs/reference")

const check = (pages: ReadonlyMap<string, string>): void => {
  const stale = [...pages].flatMap(([file, text]) => {
    const reason = difference(text, join(directory, file))
    return reason === undefined ? [] : [`docs/reference/${file} ${reason}`]
  })
  const left = globSync("*.md", { cwd: directory })
    .filter((file) => !pages.has(file))
    .map((file) => `docs/reference/${file} is of no door`)
  for (const line of [...stale, ...left]) console.log(`${line}: run \`npx -y pnpm@12 reference\``)
  console.log(`${pages.size} pages compared, ${stale.length + left.length} differ`)
  if (stale.length + left.length > 0) process.exitCode = 1
}

build()
const doors = doorsOfReference()
const pages = referencePages(doors, readDoors(doors, repository), repository)
if (process.argv.includes("--check")) check(pages)
else {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  for (const [file, text] of pages) writeFileSync(join(directory, file), text)
  console.log(`wrote ${pages.size} pages to docs/reference`)
}
