import { appendFileSync } from "node:fs"
import { createEngine, jobKind, providerPort } from "@kiln/core"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { memoryBlobs } from "@kiln/testing"
import * as Schema from "effect/Schema"

/**
 * Runs live jobs that call a provider once, under a rate, and appends a line for each call to a file: `callAtRate.ts PLACE FILE
 * [JOBS [FROM]]`. Submits that many jobs first.
 */

const [place = "", file = "", jobs = "0", from = "0"] = process.argv.slice(2)
const store = place.startsWith("postgres") ? postgresStore({ url: place }) : sqliteStore({ path: place })

const echo = providerPort({
  name: "echo",
  rate: { limit: 10, perMs: 1_000, burst: 8 },
  check: (answer: unknown, _request: { readonly text: string }) => String(answer),
})
const shout = jobKind({
  name: "shout",
  request: Schema.Struct({ n: Schema.Number }),
  providers: [echo],
  run: async ({ ask, request }) => ({ output: { said: await ask.echo({ text: String(request.n) }) } }),
})
const engine = await createEngine({
  store,
  blobs: memoryBlobs(),
  kinds: [shout],
  providers: {
    live: {
      echo: async ({ text }: { readonly text: string }) => {
        appendFileSync(
          file,
          `${JSON.stringify({ pid: process.pid, text, at: performance.timeOrigin + performance.now() })}\n`,
        )
        return text
      },
    },
  },
  settings: { leaseDurationMs: 3_000, pollIntervalMs: 200, concurrency: 20, limits: { perProject: 0 } },
})
await Promise.all(Array.from({ length: Number(jobs) }, (_, n) => engine.submit("shout", { n: Number(from) + n })))
process.stdout.write("ready\n")
