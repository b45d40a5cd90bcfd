import { spawnSync } from "node:child_process"
import { existsSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { pathToFileURL } from "node:url"
import type { Load, Tool } from "./Recipe.ts"

/** Signals, generated files and their durations. */
export const cacheDirectory = process.env["KILN_HONEST_CACHE"] ?? join(tmpdir(), "kiln-honest")

/** Where optional npm packages are installed. They encode and mux test files, and are not dependencies of kiln. */
export const npmDirectory = process.env["KILN_HONEST_NPM"] ?? join(tmpdir(), "kiln-honest-npm")

const found = new Map<Tool, boolean>()

/** Returns true if a program is in the path, a Python module is installed, or an npm package is in `npmDirectory`. */
const hasTool = (tool: Tool): boolean => {
  const known = found.get(tool)
  if (known !== undefined) return known
  const isThere = tool.startsWith("npm:")
    ? existsSync(join(npmDirectory, "node_modules", tool.slice(4), "package.json"))
    : tool.startsWith("python:")
      ? spawnSync("/usr/bin/python3", ["-c", `import ${tool.slice(7)}`]).status === 0
      : (process.env["PATH"] ?? "").split(delimiter).some((directory) => existsSync(join(directory, tool)))
  found.set(tool, isThere)
  return isThere
}

export const missingTools = (tools: ReadonlyArray<Tool>): ReadonlyArray<Tool> => tools.filter((tool) => !hasTool(tool))

let importer: Promise<{ readonly load: Load }> | undefined

/** Imports an optional npm package, as a module in `npmDirectory` would. */
export const load: Load = async (name) => {
  importer ??= (async () => {
    const path = join(npmDirectory, "load.mjs")
    writeFileSync(path, "export const load = (name) => import(name)\n")
    return (await import(pathToFileURL(path).href)) as { readonly load: Load }
  })()
  return (await importer).load(name)
}
