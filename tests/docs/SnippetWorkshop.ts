import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Snippet } from "./extractSnippets.ts"
import { type Ran, runNode } from "./runNode.ts"

/** Files of tests, which their runner runs. */
const isTest = ({ code }: Snippet): boolean => /from "(@effect\/)?vitest"/.test(code)

/** Code that needs a separate process. */
const isAlone = ({ code }: Snippet): boolean => /\bprocess\.(on|once|exit)\b|"node:test"/.test(code)

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
    for (const index of snippets.keys()) this.#write(index, this.#place(index))
  }

  #place(index: number): string {
    return join(this.#directory, `${index}`)
  }

  #write(index: number, directory: string): void {
    const { code = "", line = 1 } = this.#snippets[index] ?? {}
    mkdirSync(directory)
    // Blank lines in front give errors the line numbers of the Markdown file.
    writeFileSync(join(directory, "snippet.ts"), `${"\n".repeat(line - 1)}${code}\nexport {}\n`)
  }

  /** Returns the compiler's messages for each snippet, in order. It runs once for all of them. */
  async typeErrors(): Promise<ReadonlyArray<ReadonlyArray<string>>> {
    // Snippets may have unused names for readers.
    const compilerOptions = { noUnusedLocals: false, noUnusedParameters: false }
    const configuration = join(this.#directory, "tsconfig.json")
    const files = this.#snippets.map((_, index) => `${index}/snippet.ts`)
    writeFileSync(
      configuration,
      JSON.stringify({ extends: "../../tsconfig.json", compilerOptions, files, include: [] }),
    )
    const compiler = join(this.#root, "node_modules/typescript/bin/tsc")
    const args = [compiler, "-p", configuration, "--pretty", "false"]
    const { exitCode, stdout, stderr } = await runNode(this.#directory, args, 120_000)
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

  /**
   * Runs these snippets in one process, one after the other, and those that are tests in one of the test runner. A snippet
   * has no result where it must be run alone to know: after a process that crashed, hung, or did not end by itself.
   */
  async runTogether(indices: ReadonlyArray<number>, timeoutMs: number): Promise<ReadonlyMap<number, Ran>> {
    const indicesWhere = (is: (snippet: Snippet) => boolean) =>
      indices.filter((index) => this.#snippets.slice(index, index + 1).some((snippet) => is(snippet)))
    const plain = indicesWhere((snippet) => !isTest(snippet) && !isAlone(snippet))
    const tests = indicesWhere(isTest)
    const ran = await Promise.all([
      plain.length === 0 ? new Map<number, Ran>() : this.#runPlain(plain, timeoutMs),
      tests.length === 0 ? new Map<number, Ran>() : this.#runTests(tests, timeoutMs),
    ])
    return new Map(ran.flatMap((each) => [...each]))
  }

  async #runPlain(indices: ReadonlyArray<number>, timeoutMs: number): Promise<ReadonlyMap<number, Ran>> {
    const directories = indices.map((index) => this.#place(index))
    const args = ["--conditions=@kiln/source", join(import.meta.dirname, "runTogether.mjs"), ...directories]
    const { exitCode, messages } = await runNode(this.#directory, args, timeoutMs)
    if (exitCode !== 0) return new Map()
    const sent = messages as ReadonlyArray<Ran & { readonly directory: string }>
    return new Map(sent.map(({ directory, ...ran }) => [indices[directories.indexOf(directory)] ?? -1, ran]))
  }

  async #runTests(indices: ReadonlyArray<number>, timeoutMs: number): Promise<ReadonlyMap<number, Ran>> {
    const report = join(this.#directory, "report.json")
    writeFileSync(
      join(this.#directory, "vitest.config.mjs"),
      `export default {
        resolve: { conditions: ["@kiln/source"] },
        ssr: { resolve: { conditions: ["@kiln/source", "node"] } },
        test: { include: ${JSON.stringify(indices.map((index) => `${index}/snippet.ts`))}, testTimeout: 60_000, reporters: [["json", { outputFile: ${JSON.stringify(report)} }]] },
      }`,
    )
    const runner = join(this.#root, "node_modules/vitest/vitest.mjs")
    const { stderr, stdout } = await runNode(this.#directory, [runner, "run", "--root", this.#directory], timeoutMs)
    const { testResults } = readReport(report)
    return new Map(
      indices.map((index) => {
        const file = testResults.find(({ name }) => name === join(this.#place(index), "snippet.ts"))
        const passed = file?.status === "passed"
        const failures = file?.assertionResults.flatMap(({ failureMessages }) => failureMessages) ?? []
        const why = [file?.message ?? "it has no test, or could not be loaded", ...failures].join("\n")
        return [index, { exitCode: passed ? 0 : 1, stdout: "", stderr: passed ? "" : `${why}\n${stderr}${stdout}` }]
      }),
    )
  }

  /** Runs a snippet as `node --conditions=@kiln/source snippet.ts`, in a new directory of its own. */
  async run(index: number, timeoutMs: number): Promise<Ran> {
    const directory = join(this.#directory, `alone-${index}`)
    this.#write(index, directory)
    const args = ["--conditions=@kiln/source", join(directory, "snippet.ts")]
    const { exitCode, stderr, stdout } = await runNode(directory, args, timeoutMs)
    return { exitCode, stderr, stdout }
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

interface Report {
  readonly testResults: ReadonlyArray<{
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: ReadonlyArray<{ readonly failureMessages: ReadonlyArray<string> }>
  }>
}

/** A runner that found nothing to run writes none. */
const readReport = (path: string): Report => {
  try {
    return JSON.parse(readFileSync(path, "utf8"))
  } catch {
    return { testResults: [] }
  }
}
