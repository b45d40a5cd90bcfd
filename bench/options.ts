import { parseArgs } from "node:util"
import { resolve } from "node:path"

export interface BenchOptions {
  /** Smaller counts and one round: under three minutes. */
  readonly quick: boolean
  /** Includes workloads that take many minutes: a million finished jobs. */
  readonly long: boolean
  /** Workloads whose id matches. */
  readonly only: RegExp
  /** Engines whose name matches; kiln is always measured. */
  readonly engines: RegExp
  readonly rounds: number
  /** Another checkout of kiln, measured in the same rounds. */
  readonly base: string | undefined
  /** File for all figures. */
  readonly json: string | undefined
  /** Whether to write docs/benchmarks.md and its plots. */
  readonly write: boolean
}

const positive = (text: string): number => {
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1) throw new Error(`--rounds must be a positive integer, got ${text}`)
  return count
}

/** Reads the command line. Throws for options that do not exist. */
export const readOptions = (args: ReadonlyArray<string>): BenchOptions => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: "boolean", default: false },
      long: { type: "boolean", default: false },
      only: { type: "string", default: "" },
      engines: { type: "string", default: "" },
      rounds: { type: "string" },
      base: { type: "string" },
      json: { type: "string" },
      write: { type: "boolean", default: false },
    },
  })
  return {
    quick: values.quick,
    long: values.long,
    only: new RegExp(values.only),
    engines: new RegExp(values.engines),
    rounds: positive(values.rounds ?? (values.quick ? "1" : "3")),
    base: values.base === undefined ? undefined : resolve(values.base),
    json: values.json,
    write: values.write,
  }
}
