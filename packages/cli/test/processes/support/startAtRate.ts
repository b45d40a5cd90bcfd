import { createInterface } from "node:readline"
import { createEngine, jobKind } from "@kiln/core"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { memoryBlobs, memoryStore } from "@kiln/testing"
import * as Schema from "effect/Schema"

/**
 * Runs backlogs of kinds with a rate: `startAtRate.ts PLACE SECONDS SUBMITS RATE…`, with numbers a second. Submits the jobs first if it
 * is told to, prints a line, and begins to work when it reads one. Then it prints when jobs started, in milliseconds, by rate.
 */

const [place = "", seconds = "", submits = "", ...rates] = process.argv.slice(2)
const isPostgres = place.startsWith("postgres")
const store =
  place === "memory" ? memoryStore() : isPostgres ? postgresStore({ url: place }) : sqliteStore({ path: place })

const starts: Record<string, Array<number>> = {}
const kinds = rates.map((rate) => {
  const times: Array<number> = (starts[rate] = [])
  return jobKind({
    name: `at_${rate}`,
    request: Schema.Struct({}),
    limits: { rate: { limit: Number(rate), perMs: 1_000 } },
    run: async () => {
      times.push(performance.timeOrigin + performance.now())
      return { output: {} }
    },
  })
})
const settings = { concurrency: 100, queueCap: 0, limits: { perProject: 0 } }
const engine = await createEngine({ store, blobs: memoryBlobs(), kinds, settings, autoStart: false, log: false })
if (submits === "yes")
  for (const rate of rates) {
    const count = Math.ceil(1.2 * Number(rate) * Number(seconds)) + Number(rate) + 10
    for (let left = count; left > 0; left -= 500)
      await engine.submitMany(
        `at_${rate}`,
        Array.from({ length: Math.min(500, left) }, () => ({ request: {} })),
      )
  }
process.stdout.write("ready\n")
await createInterface({ input: process.stdin })[Symbol.asyncIterator]().next()
await engine.start()
await new Promise((resolve) => setTimeout(resolve, 1_000 * Number(seconds)))
process.stdout.write(`${JSON.stringify(starts)}\n`)
