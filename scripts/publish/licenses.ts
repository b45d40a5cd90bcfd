import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"

interface Licensed {
  readonly name: string
  readonly version: string
  readonly license?: string
}

/** Returns the licenses of installed packages, which require them to be passed on. Takes the directories of the packages. */
export const licenses = (directories: Iterable<string>): string => {
  const texts = new Set(
    [...directories].map((directory) => {
      const {
        license = "unknown",
        name,
        version,
      }: Licensed = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"))
      const [file] = globSync(["LICEN[CS]E", "LICEN[CS]E.*", "licen[cs]e", "licen[cs]e.*"], { cwd: directory })
      const text = file === undefined ? "" : readFileSync(join(directory, file), "utf8").trim()
      return `${name} ${version} (${license})\n\n${text}\n`
    }),
  )
  return [...texts].toSorted().join(`\n${"-".repeat(80)}\n\n`)
}
