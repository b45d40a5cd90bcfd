import { globSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { build as bundle } from "esbuild"
import { copyDeclarations } from "./builtIn.ts"
import { licenses } from "./licenses.ts"
import { type PublicPackage, publicPackages, repository } from "./publicPackages.ts"

/**
 * Packages whose JavaScript is a few files, with the dependencies that are built into them. Their `tsconfig.build.json` says
 * `emitDeclarationOnly`: declarations stay one file for each source.
 */
const bundled: Readonly<Record<string, ReadonlyArray<string>>> = {
  "packages/adapter-postgres": ["kysely"],
  "packages/adapter-sqlite": ["kysely"],
  "packages/core": [],
}

const builtInto = (directory: string): ReadonlyArray<string> =>
  (bundled[directory] ?? []).map((name) => join(repository, directory, "node_modules", name))

/** The directories of other people's packages that are built into ours. */
export const builtInPackages = (): ReadonlyArray<string> => Object.keys(bundled).flatMap(builtInto)

const bundlePackage = async ({ directory, manifest }: PublicPackage): Promise<void> => {
  const dist = join(repository, directory, "dist")
  for (const file of globSync("**/*.js", { cwd: dist })) rmSync(join(dist, file))
  const outside = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })
  await bundle({
    absWorkingDir: join(repository, directory),
    entryPoints: Object.values(manifest.exports).flatMap((door) => door["@kiln/source"] ?? []),
    outdir: "dist",
    bundle: true,
    // What entry points share exists once, and what is loaded on demand stays apart.
    splitting: true,
    chunkNames: "parts/[name]-[hash]",
    format: "esm",
    platform: "node",
    target: "node22",
    external: outside.filter((name) => bundled[directory]?.includes(name) !== true),
    legalComments: "none",
    logLevel: "error",
  })
  copyDeclarations(directory)
  const inside = builtInto(directory)
  if (inside.length > 0) writeFileSync(join(dist, "LICENSES.txt"), licenses(inside))
}

/**
 * Writes the JavaScript of packages that programs load into processes of their own: a file for each source and for each part of
 * Kysely would take 20 MB more of memory, and twice the time to load. Throws with the bundler's message.
 */
export const bundlePackages = async (): Promise<void> => {
  await Promise.all(
    publicPackages()
      .filter(({ directory }) => directory in bundled)
      .map(bundlePackage),
  )
}
