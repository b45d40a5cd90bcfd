import { existsSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { publicPackages, repository } from "./publicPackages.ts"

const names = (list: string): ReadonlyArray<{ readonly from: string; readonly as: string }> =>
  list
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "" && !name.startsWith("type "))
    .map((name) => {
      const [from = "", as = from] = name.split(" as ")
      return { from, as }
    })

const listed = /^export \{([^}]*)\} from "([^"]+)"/gm
const whole = /^export \* from "([^"]+)"/gm
const declared = /^export (?:declare )?(?:async )?(?:const|let|function\*?|class) (\w+)/gm
const imported = /^import \{([^}]*)\} from "([^"]+)"/gm

interface Barrel {
  readonly lists: ReadonlyArray<{ readonly from: string; readonly as: string; readonly file: string }>
  readonly wholes: ReadonlyArray<string>
  readonly declares: ReadonlySet<string>
}

/**
 * Leads imports of our packages past the files that only pass exports on. esbuild counts everything that such a file names as part of
 * each entry that imports one thing from it, so a command that needs one function of the server would load all of the server.
 */
export const skipBarrels = (): ((path: string, text: string) => string) => {
  const doors = new Map(
    publicPackages().flatMap(({ directory, manifest }) =>
      Object.entries(manifest.exports).flatMap(([door, { "@kiln/source": source }]) =>
        source === undefined ? [] : [[manifest.name + door.slice(1), join(repository, directory, source)] as const],
      ),
    ),
  )
  /** The source file that a specifier names; `undefined` for packages of others. */
  const fileOf = (specifier: string, from: string): string | undefined => {
    const file = specifier.startsWith(".") ? join(dirname(from), specifier) : doors.get(specifier)
    return file !== undefined && existsSync(file) ? file : undefined
  }
  const barrels = new Map<string, Barrel>()
  const read = (file: string): Barrel => {
    const known = barrels.get(file)
    if (known !== undefined) return known
    const text = readFileSync(file, "utf8")
    const barrel: Barrel = {
      lists: [...text.matchAll(listed)].flatMap(([, list = "", specifier = ""]) => {
        const target = fileOf(specifier, file)
        return target === undefined ? [] : names(list).map((name) => ({ ...name, file: target }))
      }),
      wholes: [...text.matchAll(whole)].flatMap(([, specifier = ""]) => fileOf(specifier, file) ?? []),
      declares: new Set([...text.matchAll(declared)].map(([, name = ""]) => name)),
    }
    barrels.set(file, barrel)
    return barrel
  }
  /** The file that declares what `file` exports under a name. */
  const find = (file: string, name: string): { readonly file: string; readonly name: string } | undefined => {
    const { declares, lists, wholes } = read(file)
    if (declares.has(name)) return { file, name }
    const entry = lists.find(({ as }) => as === name)
    if (entry !== undefined) return find(entry.file, entry.from)
    for (const next of wholes) {
      const found = find(next, name)
      if (found !== undefined) return found
    }
    return undefined
  }
  const direct =
    (keyword: "import" | "export", path: string) => (statement: string, list: string, specifier: string) => {
      const target = fileOf(specifier, path)
      if (target === undefined) return statement
      return names(list)
        .map(({ as, from }) => {
          const found = find(target, from) ?? { file: target, name: from }
          return `${keyword} { ${found.name} as ${as} } from ${JSON.stringify(found.file)}`
        })
        .join(";")
    }
  return (path, text) => text.replace(imported, direct("import", path)).replace(listed, direct("export", path))
}
