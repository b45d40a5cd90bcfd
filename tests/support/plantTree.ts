import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

/** The root of the repository. */
export const repository = join(import.meta.dirname, "../..")

export interface PlantedTree extends Disposable {
  readonly root: string
}

/**
 * A small workspace in a temporary directory: the real manifests of every package (so its doors and dependencies are the
 * real ones), the real root files named in `copied`, and the given files. A package without a given `src/index.ts` gets an
 * one for each entry point. Removed when disposed.
 */
export const plantTree = (files: Readonly<Record<string, string>>, copied: ReadonlyArray<string> = []): PlantedTree => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "kiln-planted-")))
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  for (const path of ["package.json", "pnpm-workspace.yaml", ".gitignore", ...copied]) {
    write(path, readFileSync(join(repository, path), "utf8"))
  }
  for (const path of globSync("packages/*/package.json", { cwd: repository })) {
    const text = readFileSync(join(repository, path), "utf8")
    write(path, text)
    for (const door of doorsOf(JSON.parse(text))) write(join(dirname(path), door), 'export const door = "planted"\n')
  }
  for (const [path, text] of Object.entries(files)) write(path, text)
  linkModules(root)
  return { root, [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }) }
}

interface Manifest {
  readonly name: string
  readonly exports: Record<string, Record<string, string>>
}

const doorsOf = (manifest: Manifest): Array<string> =>
  Object.values(manifest.exports).flatMap((door) => door["@kiln/source"] ?? [])

/** Installed packages are the real ones; packages of the workspace are the planted ones. */
const linkModules = (root: string): void => {
  const link = (target: string, path: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    symlinkSync(target, join(root, path))
  }
  for (const path of globSync("packages/*/package.json", { cwd: root })) {
    const manifest: Manifest = JSON.parse(readFileSync(join(root, path), "utf8"))
    link(join(root, dirname(path)), join("node_modules", manifest.name))
  }
  const installed = globSync(
    ["node_modules/*", "node_modules/@*/*", "packages/*/node_modules/*", "packages/*/node_modules/@*/*"],
    {
      cwd: repository,
    },
  )
  for (const path of installed) {
    if (/node_modules\/([.@][^/]*$|@kiln\/)/.test(path)) continue
    link(realpathSync(join(repository, path)), path)
  }
}
