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

/** The text of `--help`; docs/benchmarks.md explains the options. */
export const usage = `usage: npx -y pnpm@12 bench [options]

  --quick             one round of smaller counts
  --only REGEX        workloads by id, such as sqlite/create-32
  --engines REGEX     engines by name; kiln is always measured
  --rounds N          rounds, default 3
  --base DIRECTORY    another checkout of kiln, measured in the same rounds
  --long              includes drains beside a million finished jobs
  --json FILE         writes every figure of every round
  --write             writes docs/benchmarks.md and its plots`

const matching = (option: string, text: string): RegExp => {
  try {
    return new RegExp(text)
  } catch (error) {
    throw new Error(`--${option} must be a regular expression, got ${text}`, { cause: error })
  }
}

const positive = (text: string): number => {
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1) throw new Error(`--rounds must be a positive integer, got ${text}`)
  return count
}

/** Reads the command line; `undefined` for `--help`. Throws for options that do not exist. */
export const readOptions = (args: ReadonlyArray<string>): BenchOptions | undefined => {
  const { values } = parseArgs({
    args: [...args],
    options: {
      help: { type: "boolean", short: "h", default: false },
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
  if (values.help) return undefined
  return {
    quick: values.quick,
    long: values.long,
    only: matching("only", values.only),
    engines: matching("engines", values.engines),
    rounds: positive(values.rounds ?? (values.quick ? "1" : "3")),
    base: values.base === undefined ? undefined : resolve(values.base),
    json: values.json,
    write: values.write,
  }
}
