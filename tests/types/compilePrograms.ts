import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { runTool } from "../../scripts/publish/runTool.ts"
import { repository } from "../support/plantTree.ts"

/** A compiler message about one place of a program. */
export interface Complaint {
  /** Of the program, from 1. */
  readonly line: number
  /** Its first line, as an editor's list shows it. */
  readonly message: string
  /** All its lines. */
  readonly whole: string
}

/**
 * Compiles programs inside the repository, where packages resolve as they do for users, in one run of the compiler. Returns its
 * messages by program name.
 */
export const compilePrograms = <Name extends string>(
  programs: Readonly<Record<Name, string>>,
): Readonly<Record<Name, ReadonlyArray<Complaint>>> => {
  mkdirSync(join(repository, ".snippets"), { recursive: true })
  const directory = mkdtempSync(join(repository, ".snippets/types-"))
  try {
    for (const [name, code] of Object.entries<string>(programs)) {
      writeFileSync(join(directory, `${name}.ts`), `${code}\nexport {}\n`)
    }
    const compilerOptions = { noUnusedLocals: false, noUnusedParameters: false }
    const configuration = { extends: "../../tsconfig.json", compilerOptions, include: ["*.ts"] }
    writeFileSync(join(directory, "tsconfig.json"), JSON.stringify(configuration))
    const compiler = join(repository, "node_modules/typescript/bin/tsc")
    const { output, status } = runTool(process.execPath, [compiler, "-p", ".", "--pretty", "false"], { cwd: directory })
    const complaints = read(output)
    if (status !== 0 && !output.includes("error TS")) throw new Error(`the compiler failed:\n${output}`)
    const entries = Object.keys(programs).map((name) => [name, complaints.filter(({ file }) => file === `${name}.ts`)])
    return Object.fromEntries(entries)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** `file(line,column): error TS1234: message`, and its indented continuation lines. */
const read = (output: string): ReadonlyArray<Complaint & { readonly file: string }> =>
  [...output.matchAll(/^(\S+)\((\d+),\d+\): error TS\d+: (.*(?:\n .*)*)/gm)].map(([, file = "", line, whole = ""]) => ({
    file,
    line: Number(line),
    message: whole.split("\n")[0] ?? "",
    whole,
  }))
