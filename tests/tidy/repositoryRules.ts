import { dirname, join, normalize } from "node:path/posix"
import { findLines, isAboutTidiness, type Finding, type TidyFile } from "./TidyFile.ts"

/** A path that exists on one machine only. */
export const noMachinePaths = (files: ReadonlyArray<TidyFile>): Array<Finding> =>
  files
    .filter((file) => !isAboutTidiness(file))
    .flatMap((file) =>
      findLines(
        file,
        /(?<![\w.$})\]*-])\/(work|tmp|root|home|Users)\/[\w.]|\b[A-Z]:\\Users\\/,
        "a path of one machine",
      ),
    )

const isLockFile = ({ path }: TidyFile): boolean =>
  /(^|\/)(pnpm-lock\.yaml|package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|bun\.lock)$/.test(path)

/** A lock file that names a host installs from that host everywhere. */
export const noRegistryHosts = (files: ReadonlyArray<TidyFile>): Array<Finding> => [
  ...files
    .filter((file) => isLockFile(file))
    .flatMap((file) => findLines(file, /https?:\/\/|\btarball:|"?\bresolved\b"?[: ]/, "a lock file names a host")),
  ...files
    .filter((file) => !isAboutTidiness(file) && !isLockFile(file))
    .flatMap((file) =>
      findLines(file, /\bregistry\s*[=:]\s*["']?https?:|\bregistry\.[\w-]+\.\w+/, "a registry by name"),
    ),
]

const exact = /^\d+\.\d+\.\d+(-[\w.]+)?(\+[\w.]+)?$/
const isExact = (version: string): boolean => exact.test(version) || /^(catalog:|workspace:)/.test(version)

/** Versions are exact, in the catalog or where they stand; Node alone follows its line. */
export const exactVersions = (files: ReadonlyArray<TidyFile>): Array<Finding> =>
  files.flatMap((file) => {
    if (/(^|\/)package\.json$/.test(file.path)) return inexactManifest(file)
    return file.path === "pnpm-workspace.yaml" ? inexactCatalog(file) : []
  })

interface Manifest {
  readonly [section: string]: Readonly<Record<string, string>> | undefined
}

const inexactManifest = ({ path, text }: TidyFile): Array<Finding> => {
  const manifest: Manifest = JSON.parse(text)
  // Ranges are what peers are for: the consumer has the version.
  return ["dependencies", "devDependencies", "optionalDependencies"]
    .flatMap((section) => Object.entries(manifest[section] ?? {}))
    .filter(([name, version]) => !isExact(version) && name !== "node")
    .map(([name, version]) => `${path}: ${name} ${version} is not exact`)
}

/** Reads `catalog:` and `catalogs:` with their indented entries, which is all of YAML that they use. */
const inexactCatalog = ({ path, text }: TidyFile): Array<Finding> => {
  const section = /^catalogs?:\n((?:(?: .*)?\n)*)/gm
  const entries = [...text.matchAll(section)].flatMap(([, body = ""]) => [
    ...body.matchAll(/^\s+["']?([^\s"':#][^\s"':]*)["']?:[ \t]+["']?([^\s"'#]+)/gm),
  ])
  return entries
    .filter(([, , version = ""]) => !exact.test(version))
    .map(([, name, version]) => `${path}: ${name} ${version} is not exact`)
}

/** Every link of a Markdown file to something in the repository leads there, its `#heading` included. */
export const linksResolve = (files: ReadonlyArray<TidyFile>): Array<Finding> => {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const directories = new Set(files.flatMap(({ path }) => parents(path)))
  return files
    .filter(({ path }) => path.endsWith(".md"))
    .flatMap(({ path, text }) =>
      links(text).flatMap(({ line, target }): Array<Finding> => {
        if (/^([a-z][a-z+.-]*:|\/\/)/i.test(target)) return []
        const [file = "", heading] = decodeURI(target).split("#")
        const to =
          file === "" ? path : normalize(join(file.startsWith("/") ? "." : dirname(path), file)).replace(/\/$/, "")
        const found = byPath.get(to)
        if (found === undefined) return directories.has(to) ? [] : [`${path}:${line}: ${target} leads nowhere`]
        if (heading === undefined || !to.endsWith(".md")) return []
        return headings(found.text).has(heading) ? [] : [`${path}:${line}: ${target} names no heading`]
      }),
    )
}

const parents = (path: string): Array<string> => {
  const parent = dirname(path)
  return parent === "." ? [parent] : [parent, ...parents(parent)]
}

const links = (text: string): Array<{ readonly line: number; readonly target: string }> =>
  prose(text)
    .split("\n")
    .flatMap((content, index) =>
      [...content.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|^\s*\[[^\]]+\]:\s+(\S+)/g)].map(
        ([, inline, reference]) => ({ line: index + 1, target: inline ?? reference ?? "" }),
      ),
    )

/** Markdown without its code, line by line. */
const prose = (text: string): string =>
  text
    .replaceAll(/^( *)(```+|~~~+)[\s\S]*?^\1\2 *$/gm, (fence) => fence.replaceAll(/[^\n]/g, ""))
    .replaceAll(/`[^`\n]*`/g, "``")

/** The anchors GitHub gives to headings. */
const headings = (text: string): Set<string> => {
  const seen = new Map<string, number>()
  const fenceless = text.replaceAll(/^( *)(```+|~~~+)[\s\S]*?^\1\2 *$/gm, "")
  for (const [, title = ""] of fenceless.matchAll(/^#{1,6}\s+(.+?)\s*#*$/gm)) {
    const plain = title.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase()
    const slug = plain.replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(/\s/g, "-")
    seen.set(slug, (seen.get(slug) ?? -1) + 1)
  }
  return new Set(
    [...seen].flatMap(([slug, repeats]) => Array.from({ length: repeats + 1 }, (_, n) => (n ? `${slug}-${n}` : slug))),
  )
}
