// Builds and packs every public package, as publishing would: `pnpm pack:all [directory]`.
import { existsSync, mkdirSync } from "node:fs"
import { join, resolve } from "node:path"
import { build } from "./build.ts"
import { type PublicPackage, publicPackages, repository } from "./publicPackages.ts"
import { runTool } from "./runTool.ts"

export interface PackedPackage extends PublicPackage {
  /** Where its tarball is. */
  readonly tarball: string
}

/**
 * Packs what is built into `directory`. Like publishing, pnpm replaces `workspace:` and
 * `catalog:` with versions, replaces the entry points with those of `publishConfig`, and adds the license to each.
 */
export const pack = (directory: string, root = repository): ReadonlyArray<PackedPackage> => {
  mkdirSync(directory, { recursive: true })
  const packages = publicPackages(root)
  const filters = packages.map(({ manifest }) => `--filter=${manifest.name}`)
  const args = ["-y", "--prefer-offline", "pnpm@12", "-r", ...filters, "pack", "--pack-destination", directory]
  const { output, status } = runTool("npx", args, { cwd: root })
  if (status !== 0) throw new Error(`packing failed:\n${output}`)
  return packages.map((packed) => {
    const { name, version } = packed.manifest
    const tarball = join(directory, `${name.replace("@", "").replace("/", "-")}-${version}.tgz`)
    if (!existsSync(tarball)) throw new Error(`${name} was not packed:\n${output}`)
    return { ...packed, tarball }
  })
}

if (import.meta.main) {
  await build()
  for (const { tarball } of pack(resolve(process.argv[2] ?? "dist"))) console.log(tarball)
}
