import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { basename, dirname, join, relative } from "node:path/posix"
import { repository } from "./publicPackages.ts"

/** Our packages that are not published, by the directories of the packages that they are built into, with their declarations. */
const builtIn: Readonly<Record<string, ReadonlyArray<string>>> = {
  "packages/adapter-postgres": ["packages/sql-store"],
  "packages/adapter-sqlite": ["packages/sql-store"],
}

const manifestOf = (directory: string): { readonly name: string } =>
  JSON.parse(readFileSync(join(repository, directory, "package.json"), "utf8"))

/** The names of the packages that are built into this one. */
export const builtInNames = (directory: string): ReadonlyArray<string> =>
  (builtIn[directory] ?? []).map((inner) => manifestOf(inner).name)

/** Whether a built file, by its path in `dist`, belongs to a package that was built in. */
export const isBuiltIn = (directory: string, file: string): boolean =>
  (builtIn[directory] ?? []).some((inner) => file.startsWith(`${basename(inner)}/`))

/** Copies the declarations of the packages that are built into this one, and leads its own declarations to the copies. */
export const copyDeclarations = (directory: string): void => {
  const dist = join(repository, directory, "dist")
  for (const inner of builtIn[directory] ?? []) {
    const target = join(dist, basename(inner))
    const from = join(repository, inner, "dist")
    for (const file of globSync("**/*.d.ts", { cwd: from })) {
      mkdirSync(dirname(join(target, file)), { recursive: true })
      writeFileSync(join(target, file), readFileSync(join(from, file)))
    }
    const { name } = manifestOf(inner)
    for (const file of globSync("**/*.d.ts", { cwd: dist })) {
      const text = readFileSync(join(dist, file), "utf8")
      const path = relative(dirname(file), `${basename(inner)}/index.js`)
      const led = text.replaceAll(`"${name}"`, `"${path.startsWith(".") ? path : `./${path}`}"`)
      if (led !== text) writeFileSync(join(dist, file), led)
    }
  }
}
