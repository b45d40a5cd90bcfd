// Packs the command line with everything it imports as one package, `kiln`: `pnpm pack:program [directory]`. `npx kiln-0.1.0.tgz serve`
// runs it alone.
import { copyFileSync, cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { build } from "./build.ts"
import { bundleProgram } from "./bundleProgram.ts"
import { type Manifest, repository } from "./publicPackages.ts"
import { runTool } from "./runTool.ts"

const read = (path: string): Manifest & Readonly<Record<string, unknown>> =>
  JSON.parse(readFileSync(join(repository, path), "utf8"))

/** Packages that the bundle loads from where they are installed: a native driver, and a library that must load synchronously. */
const installed = { "better-sqlite3": "packages/adapter-sqlite", undici: "packages/provider-http" } as const

/** The version of an installed package, which is the one that was tested. */
const versionOf = (name: keyof typeof installed): string =>
  read(join(installed[name], "node_modules", name, "package.json")).version

const manifest = () => {
  const { description, engines, license, type, version } = read("packages/cli/package.json")
  return {
    name: "kiln",
    version,
    description,
    license,
    type,
    bin: { kiln: "./bin/kiln.mjs" },
    dependencies: { "better-sqlite3": versionOf("better-sqlite3"), undici: versionOf("undici") },
    engines,
  }
}

/**
 * Packs the built command line into `directory`, and returns the path of the tarball, `kiln.tgz`. It has the same launcher as
 * `@kiln/cli`, and its bundle loads only packages that `dependencies` names.
 */
export const packProgram = async (directory: string): Promise<string> => {
  const root = join(repository, "dist/program")
  rmSync(root, { recursive: true, force: true })
  mkdirSync(root, { recursive: true })
  await bundleProgram(join(root, "dist/bundle"), "alone")
  cpSync(join(repository, "packages/cli/bin"), join(root, "bin"), {
    recursive: true,
    filter: (path) => !path.endsWith(".d.mts"),
  })
  cpSync(join(repository, "packages/provider-sandbox/assets"), join(root, "parts/provider-sandbox/assets"), {
    recursive: true,
  })
  for (const [from, to] of [
    ["LICENSE", "LICENSE"],
    ["packages/cli/PROGRAM.md", "README.md"],
  ] as const)
    copyFileSync(join(repository, from), join(root, to))
  const { version, ...rest } = manifest()
  writeFileSync(join(root, "package.json"), `${JSON.stringify({ version, ...rest }, undefined, 2)}\n`)
  const { output, status } = runTool("npm", ["pack", "--silent"], { cwd: root })
  if (status !== 0) throw new Error(`packing failed:\n${output}`)
  const tarball = join(directory, "kiln.tgz")
  mkdirSync(dirname(tarball), { recursive: true })
  renameSync(join(root, `kiln-${version}.tgz`), tarball)
  return tarball
}

if (import.meta.main) {
  await build()
  console.log(await packProgram(resolve(process.argv[2] ?? "dist")))
}
