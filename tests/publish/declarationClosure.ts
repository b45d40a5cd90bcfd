import { existsSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"

export interface ForeignImport {
  /** The files that lead there, from the door to the one that imports it. */
  readonly route: ReadonlyArray<string>
  /** Such as `effect/Schema`. */
  readonly specifier: string
}

const specifiers = /\b(?:from|import|require)\s*\(?\s*["']([^"']+)["']|<reference\s+types=["']([^"']+)["']/g

/**
 * Returns the external imports of the declarations at `entry`, direct or through their own files. `resolve` may lead to the
 * declarations of another package, which are then read as well.
 */
export const declarationClosure = (
  entry: string,
  resolve: (specifier: string) => string | undefined = () => undefined,
): ReadonlyArray<ForeignImport> => {
  const seen = new Set<string>()
  const foreign: Array<ForeignImport> = []
  const read = (file: string, before: ReadonlyArray<string>): void => {
    if (seen.has(file)) return
    const route = [...before, file]
    seen.add(file)
    const code = readFileSync(file, "utf8").replaceAll(/\/\*[\s\S]*?\*\//g, "")
    for (const [, imported, referenced] of code.matchAll(specifiers)) {
      const specifier = imported ?? referenced ?? ""
      if (specifier.startsWith(".")) read(declarationsOf(join(dirname(file), specifier)), route)
      else {
        const inside = resolve(specifier)
        if (inside === undefined) foreign.push({ route, specifier })
        else read(inside, route)
      }
    }
  }
  read(entry, [])
  return foreign
}

const declarationsOf = (path: string): string => {
  const file = path.replace(/(\.d)?\.[jt]s$/, ".d.ts")
  if (!existsSync(file)) throw new Error(`no declarations at ${file}`)
  return file
}
