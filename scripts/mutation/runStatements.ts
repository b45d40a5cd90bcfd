// Runs scripts/mutation/statements.ts until it has a result for each mutant, and sums them up.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { appendFileSync, existsSync, readFileSync, statSync, utimesSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import type { Part, Wanted } from "./statements.ts"

/** A mutant whose run shows no sign of life for so long is an endless loop. */
const silenceMs = 240_000

/** What creates, claims and ends jobs: source files of an adapter, and functions of the database. */
const names: Readonly<Record<Wanted["store"], Record<Part, string>>> = {
  sqlite: {
    create: "createJobs insertJob CountedProjects spending",
    claim: "claimJobs lanes",
    end: "endClaims JobRow progress waitingJobs",
  },
  postgres: {
    create:
      "accept_job accept_jobs replace_job stand_in_queue return_to_queue raise_spend_bound " +
      "createJobs createAtOnce insertJobs labels queueCap replaceJobs lanes spending retriedJobs",
    claim: "take_jobs_in_turn takeJobs nextClaimable",
    end:
      "end_jobs result_of_ended_job write_charge count_against_caps free_reservation wake_jobs children_ended signal_jobs " +
      "endClaims endFromOutside moveJobs progress returnJobs waitingJobs",
  },
}

export const runStatements = async (given: ReadonlyArray<string>): Promise<void> => {
  const { positionals, values } = parseArgs({
    args: [...given],
    allowPositionals: true,
    options: {
      sample: { type: "string", default: "1000000" },
      seed: { type: "string", default: "1" },
      checks: { type: "string", default: "1000000" },
      histories: { type: "string", default: "6" },
      log: { type: "string" },
    },
  })
  const [store, ...chosen] = positionals
  if (store !== "sqlite" && store !== "postgres") throw new TypeError("expected sqlite or postgres after --statements")
  const known = Object.values(names[store]).join(" ").split(" ")
  const unknown = chosen.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new TypeError(`unknown names: ${unknown.join(", ")}; known: ${known.join(", ")}`)
  const log = values.log ?? join(tmpdir(), `kiln-mutation-${store}.jsonl`)
  appendFileSync(log, "")
  const isWanted = (name: string): boolean => chosen.length === 0 || chosen.includes(name)
  const namesOf = (part: Part): ReadonlyArray<string> => names[store][part].split(" ").filter(isWanted)
  const wanted: Wanted = {
    store,
    names: { create: namesOf("create"), claim: namesOf("claim"), end: namesOf("end") },
    checks: Number(values.checks),
    histories: Number(values.histories),
    sample: Number(values.sample),
    seed: Number(values.seed),
  }
  const env = {
    ...process.env,
    // Databases of a moment need no disk.
    ...(store === "sqlite" && existsSync("/dev/shm") ? { TMPDIR: "/dev/shm" } : {}),
    KILN_MUTATION_TESTS: "scripts/mutation/statements.ts",
    KILN_MUTATION_STATEMENTS: JSON.stringify(wanted),
    KILN_MUTATION_LOG: log,
  }
  for (let isDone = false; !isDone;) {
    const args = ["node_modules/vitest/vitest.mjs", "run", "--config", "scripts/mutation/vitest.config.ts"]
    // A group of its own: the process of the tests, which may loop, ends with it.
    utimesSync(log, new Date(), new Date())
    const child = spawn(process.execPath, args, { env, stdio: "inherit", detached: true })
    const watch = setInterval(() => {
      if (Date.now() - statSync(log).mtimeMs > silenceMs && child.pid !== undefined) process.kill(-child.pid, "SIGKILL")
    }, 1_000)
    const [code, signal] = await once(child, "exit")
    clearInterval(watch)
    isDone = signal === null
    if (isDone) process.exitCode = Number(code)
  }
  summarize(log)
}

const summarize = (log: string): void => {
  const lines = readFileSync(log, "utf8")
    .split("\n")
    .filter((line) => line !== "")
  const results = new Map(
    lines
      .map((line) => JSON.parse(line) as { id: string; outcome: string; change: string })
      .map((line) => [line.id, line]),
  )
  const counts = new Map<string, { killed: number; survived: number; invalid: number }>()
  for (const { change, id, outcome } of results.values()) {
    const part = id.split(" ")[0] ?? ""
    const count = counts.get(part) ?? { killed: 0, survived: 0, invalid: 0 }
    counts.set(part, count)
    if (outcome === "killed" || outcome === "survived" || outcome === "invalid") count[outcome] += 1
    if (outcome === "survived") console.log(`${id}: ${change}`)
  }
  console.table(Object.fromEntries(counts))
  console.log(`every mutant: ${log}`)
}
