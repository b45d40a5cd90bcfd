// Raises every package to the next version, as the files in .changeset say: `pnpm release:version`.
//
// What changed is written by hand, in CHANGELOG.md under "Unreleased", with the change itself. Here that section gets the
// number of the version and its date.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { publicPackages, repository } from "./publicPackages.ts"
import { runTool } from "./runTool.ts"

/** The one version of all public packages. Throws when they differ: they are tested together and belong together. */
export const sharedVersion = (root = repository): string => {
  const versions = new Set(publicPackages(root).map(({ manifest }) => manifest.version))
  const [version] = versions
  if (version === undefined || versions.size > 1) throw new Error(`the packages are at ${[...versions].join(", ")}`)
  return version
}

/** Returns the changelog with its unreleased section under the name of a version, and an empty section above. */
export const changelogOf = (text: string, version: string, date: string): string => {
  const [before, section, ...more] = text.split(/^## Unreleased$/m)
  if (before === undefined || section === undefined || more.length > 0) {
    throw new Error('the changelog needs exactly one "## Unreleased"')
  }
  return `${before}## Unreleased\n\n## ${version} (${date})${section}`
}

/** Raises the versions at `root` and returns the new one; undefined when no file in .changeset asks for it. */
export const raiseVersion = (root: string, date: string): string | undefined => {
  // Throws where they had come apart before.
  sharedVersion(root)
  const changesets = join(repository, "node_modules/@changesets/cli/bin.js")
  const { output, status } = runTool(process.execPath, [changesets, "version"], { cwd: root })
  if (output.includes("No unreleased changesets found")) return undefined
  if (status !== 0) throw new Error(`changesets failed:\n${output}`)
  const version = sharedVersion(root)
  const changelog = join(root, "CHANGELOG.md")
  writeFileSync(changelog, changelogOf(readFileSync(changelog, "utf8"), version, date))
  return version
}

if (import.meta.main) {
  const version = raiseVersion(repository, new Date().toISOString().slice(0, "2026-11-20".length))
  console.log(
    version === undefined
      ? "nothing to release: run `npx -y pnpm@12 changeset` to record the size of a change"
      : `all packages are ${version} now: look at the changes, run \`npx -y pnpm@12 install\`, test and commit`,
  )
}
