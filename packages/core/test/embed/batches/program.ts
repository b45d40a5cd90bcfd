import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind } from "@kiln/core"
import { z } from "zod"

/** Runs until all jobs have ended, and then writes what became of them. A job may kill this process in the middle of its batch. */
const [place = ""] = process.argv.slice(2)
const store = place.startsWith("postgres") ? postgresStore({ url: place }) : sqliteStore({ path: place })

const embed = jobKind({
  name: "embed",
  request: z.object({ text: z.string() }),
  output: z.object({ text: z.string() }),
  batch: { size: 4, waitMs: 500 },
  run: async ({ jobs }) => {
    process.stdout.write(`${jobs.map(({ request }) => request.text).join(",")}\n`)
    if (jobs.some(({ request }) => request.text === "kill")) process.kill(process.pid, "SIGKILL")
    return jobs.map(({ request: { text } }) => ({ output: { text } }))
  },
})

await using engine = await createEngine({
  store,
  kinds: [embed],
  log: false,
  settings: { concurrency: 4, pollIntervalMs: 50, idlePollIntervalMs: 100, leaseDurationMs: 1_000 },
})
const texts = ["a", "kill", "b", "c"]
const made = await Promise.all(texts.map((text) => engine.submit("embed", { text }, { idempotencyKey: text })))
const ends = await Promise.all(made.map((job) => engine.wait(job, { timeoutMs: 60_000 })))
process.stdout.write(
  `${ends.map((job) => (job.status === "failed" ? job.errorCode : `${job.status} ${job.attempts}`)).join(", ")}\n`,
)
