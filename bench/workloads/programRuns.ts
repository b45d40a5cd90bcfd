import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { median } from "../measure.ts"
import type { Bench } from "./Workload.ts"

const benchDirectory = join(import.meta.dirname, "..")

/** Runs a program to its end in the directory where the peers are installed, and returns what it printed. */
export const outputOf = (args: ReadonlyArray<string>): string => {
  const { status, stderr, stdout } = spawnSync(process.execPath, args, { cwd: benchDirectory, encoding: "utf8" })
  if (status !== 0 && stderr !== "") throw new Error(stderr.slice(-4_000))
  return stdout
}

/** The median time of a process from its start to its end. */
export const processMs = (bench: Bench, run: () => unknown): number =>
  median(
    Array.from({ length: bench.quick ? 3 : 9 }, () => {
      const from = performance.now()
      run()
      return performance.now() - from
    }),
  )

/** Arguments that make Node run this code. */
export const evaluate = (code: string): ReadonlyArray<string> => ["--input-type=module", "--eval", code]
