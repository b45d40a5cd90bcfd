import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"

export interface LoadedModule {
  readonly url: string
  /** Length of its code. */
  readonly bytes: number
}

/** Runs a program to its end and returns the modules it loaded. Throws what it says if it fails. */
export const loadedModules = (
  args: ReadonlyArray<string>,
  options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
): ReadonlyArray<LoadedModule> => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-modules-"))
  try {
    const file = join(directory, "modules.json")
    const hooks = pathToFileURL(join(import.meta.dirname, "listModules.mjs")).href
    const { status, stderr } = spawnSync(process.execPath, ["--import", hooks, ...args], {
      cwd: options.cwd,
      encoding: "utf8",
      env: { ...options.env, MODULES_FILE: file },
    })
    if (status !== 0) throw new Error(`the program ended with ${status}: ${stderr}`)
    return JSON.parse(readFileSync(file, "utf8"))
  } finally {
    rmSync(directory, { recursive: true })
  }
}
