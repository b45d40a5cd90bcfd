// Prints the figures of docs/decisions/0010-one-place-for-each-thing.md: `pnpm budgets`.
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"
import { filesThatRun } from "./filesThatRun.ts"

const root = join(import.meta.dirname, "../..")
const packages = join(root, "packages")

const filesBelow = (directory: string, ending: string): ReadonlyArray<string> =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending) && !entry.parentPath.includes("node_modules"))
    .map((entry) => join(entry.parentPath, entry.name))
const linesOf = (file: string): number => readFileSync(file, "utf8").split("\n").length - 1
const sizeOf = (files: ReadonlyArray<string>): string =>
  `${files.reduce((sum, file) => sum + linesOf(file), 0)} / ${files.length}`

const sources = readdirSync(packages).flatMap((name) => {
  try {
    return filesBelow(join(packages, name, "src"), ".ts")
  } catch {
    return []
  }
})
const sqlPackages = ["adapter-sqlite", "adapter-postgres", "sql-store"]
const inPackage = (name: string): ReadonlyArray<string> =>
  sources.filter((file) => file.startsWith(join(packages, name, "src/")))

/** The number of files that import each file by a relative path. */
const importers = new Map<string, number>()
for (const file of sources) {
  const imported = [...readFileSync(file, "utf8").matchAll(/(?:from|import\() ?"(\.[^"]+)"/g)]
  for (const path of new Set(imported.map(([, path = ""]) => resolve(dirname(file), path))))
    importers.set(path, (importers.get(path) ?? 0) + 1)
}
const small = sources.filter((file) => linesOf(file) <= 30 && importers.get(file) === 1)

const namesOf = (report: string): number =>
  readFileSync(join(root, "etc", report), "utf8").match(/^export (?!\{)/gm)?.length ?? 0
const words = filesBelow(join(root, "docs"), ".md").reduce(
  (sum, file) => sum + readFileSync(file, "utf8").split(/\s+/).filter(Boolean).length,
  0,
)

const rows: Array<readonly [what: string, count: string | number]> = [
  ["SQL adapters and shared SQL: lines / files", sizeOf(sqlPackages.flatMap(inPackage))],
  ["core: lines / files", sizeOf(inPackage("core"))],
  ["files of at most 30 lines with one importer", small.length],
  ...["domain", "ports", "rules", "providers"].map(
    (door) => [`names of @kiln/core/${door}`, namesOf(`core.${door}.api.md`)] as const,
  ),
  ["docs: words", words],
]
for (const store of ["sqlite", "postgres"] as const) {
  const { attempt, get, post } = await filesThatRun(store)
  rows.push([
    `files that run on ${store}: POST to 202 / claim to done / GET`,
    `${post.length} / ${attempt.length} / ${get.length}`,
  ])
  if (process.argv.includes("--files"))
    for (const [name, files] of Object.entries({ post, attempt, get }))
      console.log([`${store} ${name}`, ...files].join("\n  "))
}
if (process.argv.includes("--files"))
  console.log(["small files", ...small.map((file) => relative(root, file))].join("\n  "))
console.log(["| What | Now |", "|---|---|", ...rows.map(([what, count]) => `| ${what} | ${count} |`)].join("\n"))
