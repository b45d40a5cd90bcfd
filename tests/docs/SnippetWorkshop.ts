import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Snippet } from "./extractSnippets.ts"

export interface Ran {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * Writes snippets below the repository, where the packages resolve as they do for a reader who installed them, and checks
 * them there. One directory per snippet, so that files they write do not meet. Removed when disposed.
 */
export class SnippetWorkshop implements Disposable {
  readonly #root: string
  readonly #directory: string
  readonly #snippets: ReadonlyArray<Snippet>

  constructor(root: string, snippets: ReadonlyArray<Snippet>) {
    this.#root = root
    this.#snippets = snippets
    mkdirSync(join(root, ".snippets"), { recursive: true })
    this.#directory = mkdtempSync(join(root, ".snippets/run-"))
    for (const [index, { code, line }] of snippets.entries()) {
      mkdirSync(join(this.#directory, `${index}`))
      // Blank lines in front give errors the line numbers of the Markdown file.
      writeFileSync(this.#path(index), `${"\n".repeat(line - 1)}${code}\nexport {}\n`)
    }
  }

  #path(index: number): string {
    return join(this.#directory, `${index}/snippet.ts`)
  }

  /** What the compiler says about each snippet, in their order; it runs once for all of them. */
  async typeErrors(): Promise<ReadonlyArray<ReadonlyArray<string>>> {
    // Names in a snippet are there to be read, even those nothing uses.
    const compilerOptions = { noUnusedLocals: false, noUnusedParameters: false }
    const configuration = join(this.#directory, "tsconfig.json")
    writeFileSync(
      configuration,
      JSON.stringify({ extends: "../../tsconfig.json", compilerOptions, include: ["*/*.ts"] }),
    )
    const compiler = join(this.#root, "node_modules/typescript/bin/tsc")
    const { exitCode, stdout, stderr } = await run(
      this.#directory,
      [compiler, "-p", configuration, "--pretty", "false"],
      120_000,
    )
    const lines = stdout.split("\n")
    const errors = this.#snippets.map(({ file }, index) =>
      lines
        .filter((line) => line.startsWith(`${index}/snippet.ts(`))
        .map((line) => line.replace(/^\d+\/snippet\.ts\((\d+),(\d+)\)/, `${file}:$1:$2`)),
    )
    // Errors of the sources are for the check of types; a compiler that did not compile is not.
    const compiled = exitCode === 0 || lines.some((line) => /^\S+\.ts\(\d+,\d+\): error/.test(line))
    if (!compiled) throw new Error(`the compiler failed: ${stdout}${stderr}`)
    return errors
  }

  /** Runs a snippet as `node --conditions=@kiln/source snippet.ts` in its directory. */
  run(index: number, timeoutMs: number): Promise<Ran> {
    return run(join(this.#directory, `${index}`), ["--conditions=@kiln/source", this.#path(index)], timeoutMs)
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

const run = async (cwd: string, args: ReadonlyArray<string>, timeoutMs: number): Promise<Ran> => {
  const { NODE_OPTIONS: _, ...env } = process.env
  const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] })
  let stdout = ""
  let stderr = ""
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (stdout += chunk))
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (stderr += chunk))
  const overdue = setTimeout(() => {
    stderr += `still running after ${timeoutMs} ms`
    child.kill("SIGKILL")
  }, timeoutMs)
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject)
    child.on("close", (code) => resolve(code))
  })
  clearTimeout(overdue)
  return { exitCode, stdout, stderr }
}
