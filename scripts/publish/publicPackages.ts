import { globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"

/** The targets of an entry point: in a checkout also sources, in a published package only built files. */
export type Door = Readonly<Record<string, string>>

export interface Manifest {
  readonly name: string
  readonly version: string
  readonly private?: boolean
  readonly exports: Readonly<Record<string, Door>>
  readonly publishConfig?: { readonly exports?: Readonly<Record<string, Door | string>> }
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

export interface PublicPackage {
  /** Such as `packages/core`. */
  readonly directory: string
  readonly manifest: Manifest
}

export const repository = join(import.meta.dirname, "../..")

/** The packages that are published, in the order of their names: all that do not say `private`. */
export const publicPackages = (root = repository): ReadonlyArray<PublicPackage> =>
  globSync("packages/*/package.json", { cwd: root })
    .sort()
    .map((path): PublicPackage => {
      const manifest: Manifest = JSON.parse(readFileSync(join(root, path), "utf8"))
      return { directory: dirname(path), manifest }
    })
    .filter(({ manifest }) => manifest.private !== true)
