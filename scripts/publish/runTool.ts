import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { repository } from "./publicPackages.ts"

export interface ToolResult {
  readonly status: number | null
  /** Standard output and then standard error. */
  readonly output: string
}

/** Runs a program to its end; one that takes longer than two minutes is killed. */
export const runTool = (
  program: string,
  args: ReadonlyArray<string>,
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): ToolResult => {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: options.cwd ?? repository,
    env: options.env ?? process.env,
    encoding: "utf8",
    timeout: 120_000,
    maxBuffer: 64 * 1024 * 1024,
  })
  return { status, output: `${stdout}${stderr}${error === undefined ? "" : String(error)}` }
}

/** Runs a JavaScript file of an installed package of the repository with this very Node. */
export const runInstalled = (file: string, args: ReadonlyArray<string>): ToolResult =>
  runTool(process.execPath, [join(repository, "node_modules", file), ...args])
