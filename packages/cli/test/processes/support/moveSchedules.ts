import { setTimeout as pause } from "node:timers/promises"
import { createEngine, jobKind } from "@kiln/core"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { memoryBlobs } from "@kiln/testing"
import * as Schema from "effect/Schema"

/** Runs schedules that tick every second, and moves them from project to project, until it is killed. */

const [place = "", count = "0"] = process.argv.slice(2)
const store = place.startsWith("postgres") ? postgresStore({ url: place }) : sqliteStore({ path: place })
const report = jobKind({
  name: "report",
  request: Schema.Struct({ n: Schema.Number }),
  run: async () => ({ output: {} }),
})
const settings = { queueCap: 0 }
const engine = await createEngine({ store, blobs: memoryBlobs(), kinds: [report], settings, log: false })
const set = (n: number, project: string) =>
  engine.schedules.set(`s${n}`, { kind: "report", request: { n }, everyMs: 1_000, project })
const all = Array.from({ length: Number(count) }, (_, n) => n)
process.stdout.write("ready\n")
for (let round = 0; ; round++) {
  for (const n of all) await set(n, `p${(round + n) % 3}`)
  await pause(5)
}
