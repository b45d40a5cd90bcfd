// Runs the real engine through seeded trouble in virtual time: `pnpm simulate --seed 1 --runs 2000`.
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { MemoryStores } from "@kiln/testing"
import { describeBroken, simulateRuns, type SimulationMode, type SimulationSummary } from "@kiln/simulation"
import { Effect, Layer } from "effect"

const usage = `Usage: pnpm simulate [options]

  --seed N    the first seed (1); the same seed replays the same run, step by step
  --runs M    how many seeds, one after the other (1)
  --jobs J    jobs of one run (8 to 24, drawn from its seed)
  --mode M    safety: faults until the end; liveness: they stop, and everything must end (drawn)
  --store S   memory (the default) or sqlite
  --trace     print every step
  --json      end with the summary as one line of JSON
  --help      this`

interface Flags {
  readonly seed: number
  readonly runs: number
  readonly jobs: number | undefined
  readonly mode: SimulationMode | undefined
  readonly store: "memory" | "sqlite"
  readonly trace: boolean
  readonly json: boolean
}

const whole = (name: string, text: string): number => {
  const number = Number(text)
  if (Number.isSafeInteger(number) && number > 0) return number
  throw new TypeError(`--${name} takes a whole number above 0, not "${text}"`)
}

const oneOf = <A extends string>(name: string, text: string, known: ReadonlyArray<A>): A => {
  const found = known.find((one) => one === text)
  if (found !== undefined) return found
  throw new TypeError(`--${name} is one of ${known.join(", ")}, not "${text}"`)
}

/** `undefined` when only the usage is wanted. */
const readFlags = (): Flags | undefined => {
  const { values } = parseArgs({
    options: {
      seed: { type: "string", default: "1" },
      runs: { type: "string", default: "1" },
      jobs: { type: "string" },
      mode: { type: "string" },
      store: { type: "string", default: "memory" },
      trace: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  })
  if (values.help) return undefined
  return {
    seed: whole("seed", values.seed),
    runs: whole("runs", values.runs),
    jobs: values.jobs === undefined ? undefined : whole("jobs", values.jobs),
    mode: values.mode === undefined ? undefined : oneOf<SimulationMode>("mode", values.mode, ["safety", "liveness"]),
    store: oneOf("store", values.store, ["memory", "sqlite"]),
    trace: values.trace,
    json: values.json,
  }
}

/** A separate file for each run, in a temporary directory. */
const sqlite = Layer.unwrap(
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "kiln-simulation-"))),
      (directory) => Effect.sync(() => rmSync(directory, { recursive: true })),
    ),
    (directory) => SqliteStores.layer({ path: join(directory, "kiln.db") }),
  ),
)

const count = (n: number, what: string): string => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`

const run = async (flags: Flags): Promise<SimulationSummary> => {
  const startedAt = performance.now()
  let saidAt = startedAt
  const since = () => `${Math.round((performance.now() - startedAt) / 1_000)} s`
  const summary = await Effect.runPromise(
    simulateRuns({
      ...flags,
      layer: flags.store === "sqlite" ? sqlite : MemoryStores.layer,
      trace: flags.trace ? (line) => console.log(line) : undefined,
      onRun: ({ jobs, runs }) => {
        if (performance.now() - saidAt < 5_000) return
        saidAt = performance.now()
        console.log(`${count(runs, "run")}, ${count(jobs, "job")}, ${since()}`)
      },
    }),
  )
  if (summary.broken === undefined)
    console.log(
      `${count(summary.runs, "run")} (seeds ${flags.seed} to ${flags.seed + flags.runs - 1}) on ${flags.store} stores, ` +
        `${count(summary.jobs, "job")}, ${summary.finished.toLocaleString("en")} ended within their runs, ` +
        `no promise broken, ${since()}`,
    )
  return summary
}

const replay = (seed: number, { jobs, mode, store }: Flags): string =>
  [
    `pnpm simulate --seed ${seed}`,
    ...(jobs === undefined ? [] : [`--jobs ${jobs}`]),
    ...(mode === undefined ? [] : [`--mode ${mode}`]),
    ...(store === "memory" ? [] : [`--store ${store}`]),
    "--trace",
  ].join(" ")

/** Sets of this size must reach all coverage; smaller ones need not. */
const enoughToSay = 100

const main = async (flags: Flags): Promise<void> => {
  const { broken, unreached, ...summary } = await run(flags)
  if (broken !== undefined) {
    console.error(describeBroken(broken))
    console.error(`see it again, step by step: ${replay(broken.seed, flags)}`)
    process.exitCode = 1
  } else if (flags.json) console.log(JSON.stringify({ ...summary, unreached }))
  else if (flags.runs >= enoughToSay)
    console.log(unreached.length === 0 ? "every state was reached" : `not reached: ${unreached.join("; ")}`)
}

try {
  const flags = readFlags()
  if (flags === undefined) console.log(usage)
  else await main(flags)
} catch (error) {
  if (!(error instanceof TypeError)) throw error
  console.error(`${error.message}\n\n${usage}`)
  process.exitCode = 2
}
