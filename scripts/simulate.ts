// Runs the real engine through seeded trouble in virtual time: `pnpm simulate --seed 1 --runs 2000`.
//
//   --seed N      the first seed (1); the same seed replays the same run, step by step
//   --runs M      how many seeds, one after the other (1)
//   --jobs J      jobs of one run (8 to 24, drawn from the seed)
//   --mode M      safety: faults until the end; liveness: they stop, and everything must end (drawn)
//   --store S     memory (default) or sqlite
//   --trace       prints every step; for one seed
//   --json        ends with the summary as one line of JSON
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { MemoryStores } from "@kiln/testing"
import { describeBroken, simulateRuns, type SimulationMode } from "@kiln/testing/simulation"
import { Effect, Layer } from "effect"

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    runs: { type: "string", default: "1" },
    jobs: { type: "string" },
    mode: { type: "string" },
    store: { type: "string", default: "memory" },
    trace: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
})

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

/** A file of its own for each run, in a directory that goes with it. */
const sqlite = Layer.unwrap(
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "kiln-simulation-"))),
      (directory) => Effect.sync(() => rmSync(directory, { recursive: true })),
    ),
    (directory) => SqliteStores.layer({ path: join(directory, "kiln.db") }),
  ),
)

const seed = whole("seed", values.seed)
const runs = whole("runs", values.runs)
const mode = values.mode === undefined ? undefined : oneOf<SimulationMode>("mode", values.mode, ["safety", "liveness"])
const store = oneOf("store", values.store, ["memory", "sqlite"])
const count = (n: number, what: string): string => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`

const startedAt = performance.now()
let saidAt = startedAt
const summary = await Effect.runPromise(
  simulateRuns({
    layer: store === "sqlite" ? sqlite : MemoryStores.layer,
    seed,
    runs,
    mode,
    jobs: values.jobs === undefined ? undefined : whole("jobs", values.jobs),
    trace: values.trace ? (line) => console.log(line) : undefined,
    onRun: (soFar) => {
      if (performance.now() - saidAt < 5_000) return
      saidAt = performance.now()
      const seconds = Math.round((saidAt - startedAt) / 1_000)
      console.log(`${count(soFar.runs, "run")}, ${count(soFar.jobs, "job")}, ${seconds} s`)
    },
  }),
)

const { broken, jobs, unreached } = summary
if (broken !== undefined) {
  console.error(describeBroken(broken))
  const again = [
    "pnpm simulate --seed",
    broken.seed,
    ...(["jobs", "mode"] as const).flatMap((name) => (values[name] === undefined ? [] : [`--${name}`, values[name]])),
    ...(store === "memory" ? [] : ["--store", store]),
  ]
  console.error(`see it again, step by step: ${again.join(" ")} --trace`)
  process.exitCode = 1
} else {
  const seconds = Math.round((performance.now() - startedAt) / 1_000)
  console.log(
    `${count(summary.runs, "run")} (seeds ${seed} to ${seed + runs - 1}) on ${store} stores, ${count(jobs, "job")}, ` +
      `${summary.finished.toLocaleString("en")} ended within their runs, no promise broken, ${seconds} s`,
  )
  if (values.json) console.log(JSON.stringify(summary))
  else if (runs >= 100)
    console.log(unreached.length === 0 ? "every state was reached" : `not reached: ${unreached.join("; ")}`)
}
