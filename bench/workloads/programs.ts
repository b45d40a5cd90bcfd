import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type { FilesOptions } from "../child/files.ts"
import { median } from "../measure.ts"
import { startKiln } from "./servers.ts"
import { type Bench, type Figures, type Subject, subjectsOf, type Workload } from "./Workload.ts"

/** Runs a program to its end and returns what it printed. */
const outputOf = (args: ReadonlyArray<string>): string => {
  const { stderr, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" })
  if (stdout === "" && stderr !== "") throw new Error(stderr.slice(-4_000))
  return stdout
}

const withFiles =
  (bench: Bench) =>
  (subject: Subject): Promise<Figures> => {
    const directory = mkdtempSync(join(tmpdir(), "kiln-bench-"))
    const options: FilesOptions = {
      kiln: bench.kilnOf(subject),
      directory,
      jobs: bench.quick ? 300 : 2_000,
      withKiln: subject.role !== "limit",
    }
    try {
      return Promise.resolve(
        JSON.parse(outputOf([join(bench.programs, "files.mjs"), JSON.stringify(options)])) as Figures,
      )
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }

/** The median time of a process that imports the module and ends. */
const importMs = (bench: Bench, module: string | undefined): number => {
  const code = module === undefined ? "0" : `import ${JSON.stringify(pathToFileURL(module).href)}`
  return median(
    Array.from({ length: bench.quick ? 3 : 9 }, () => {
      const from = performance.now()
      outputOf(["--input-type=module", "--eval", code])
      return performance.now() - from
    }),
  )
}

const startUp =
  (bench: Bench) =>
  async (subject: Subject): Promise<Figures> => {
    if (subject.role === "limit") return { import: importMs(bench, undefined) }
    const built = bench.kilnOf(subject)
    const imported = importMs(bench, join(built, "packages/core/dist/index.js"))
    const ready: Array<number> = []
    for (let count = 0; count < (bench.quick ? 2 : 5); count += 1) {
      await using server = await startKiln(built, { allCores: true })
      ready.push(server.readyMs)
    }
    return { import: imported, ready: median(ready) }
  }

/** Jobs with files, and how long programs take to start. */
export const programWorkloads = (bench: Bench): ReadonlyArray<Workload> => [
  {
    id: "files/speech",
    group: "Files",
    title: "sandbox speech, SQLite and files",
    metrics: [
      { key: "rate", title: "", unit: "/s" },
      { key: "peakMb", title: "peak memory", unit: "MB" },
    ],
    subjects: subjectsOf(bench, [], true, "raw files and rows"),
    run: withFiles(bench),
  },
  {
    id: "program/start",
    group: "Program",
    title: "start",
    metrics: [
      { key: "import", title: "process that imports @kiln/core", unit: "ms" },
      { key: "ready", title: "kiln serve, until it listens", unit: "ms" },
    ],
    subjects: subjectsOf(bench, [], true, "bare node"),
    run: startUp(bench),
  },
]
