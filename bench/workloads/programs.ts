import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type { FilesOptions } from "../child/files.ts"
import { median } from "../measure.ts"
import { evaluate, outputOf, processMs } from "./programRuns.ts"
import { startKiln } from "./servers.ts"
import { type Bench, type Figures, type Subject, subjectsOf, type Workload } from "./Workload.ts"

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

/** What a program needs that keeps jobs: the engine, a store and blobs. */
const needed = ["core/dist/index.js", "adapter-sqlite/dist/index.js", "adapter-blobs/dist/index.js"]

const importAll = (built: string): string => {
  const names = ["core", "sqlite", "blobs"]
  const modules = needed.map((file) => pathToFileURL(join(built, "packages", file)).href)
  return modules.map((url, index) => `import * as ${names[index]} from ${JSON.stringify(url)}`).join("\n")
}

const startUp =
  (bench: Bench) =>
  async (subject: Subject): Promise<Figures> => {
    if (subject.role === "limit") {
      const bare = processMs(bench, () => outputOf(evaluate("0")))
      return { import: bare, version: bare }
    }
    const built = bench.kilnOf(subject)
    const imported = processMs(bench, () => outputOf(evaluate(importAll(built))))
    const version = processMs(bench, () => outputOf([join(built, "packages/cli/bin/kiln.mjs"), "--version"]))
    const ready: Array<number> = []
    for (let count = 0; count < (bench.quick ? 2 : 5); count += 1) {
      await using server = await startKiln(built, { allCores: true })
      ready.push(server.readyMs)
    }
    return { import: imported, version, ready: median(ready) }
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
      { key: "import", title: "process that imports engine, SQLite store and file blobs", unit: "ms" },
      { key: "version", title: "kiln --version", unit: "ms" },
      { key: "ready", title: "kiln serve, until it listens", unit: "ms" },
    ],
    subjects: subjectsOf(bench, [], true, "bare node"),
    run: startUp(bench),
  },
]
