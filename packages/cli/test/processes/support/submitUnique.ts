import { createEngine, jobKind } from "@kiln/core"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { memoryBlobs } from "@kiln/testing"
import * as Schema from "effect/Schema"

/** Submits the same job 25 times at once, whenever a line arrives, and prints the ids it got with how many were made for it. */

const [place = ""] = process.argv.slice(2)
const store = place.startsWith("postgres") ? postgresStore({ url: place }) : sqliteStore({ path: place })
const report = jobKind({
  name: "report",
  request: Schema.Struct({ n: Schema.Number }),
  run: async () => ({ output: {} }),
})
const engine = await createEngine({ store, blobs: memoryBlobs(), kinds: [report], worker: false })
process.stdout.write("ready\n")
for await (const chunk of process.stdin) {
  const unique = { by: String(chunk).trim(), while: "unfinished" } as const
  const jobs = await Promise.all(Array.from({ length: 25 }, (_, n) => engine.submit("report", { n }, { unique })))
  const made = jobs.filter(({ deduplicated }) => deduplicated !== true).length
  process.stdout.write(`${JSON.stringify({ made, ids: [...new Set(jobs.map(({ id }) => id))] })}\n`)
}
await engine.stop()
