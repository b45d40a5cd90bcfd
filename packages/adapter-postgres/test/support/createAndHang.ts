import { Effect } from "effect"
import pg from "pg"
import { CallerTransactions } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { PostgresStores } from "../../src/index.ts"

const [url = ""] = process.argv.slice(2)
const client = new pg.Client({ connectionString: url })
await client.connect()
await client.query("BEGIN")
const created = Effect.gen(function* () {
  const { createJobs } = yield* CallerTransactions
  const [outcome] = yield* createJobs(client, [fixtures.newJob(1)])
  process.stdout.write(`${outcome?._tag}\n`)
})
await Effect.runPromise(Effect.provide(created, PostgresStores.layer({ url, poolSize: 2, notifications: false })))
// Nothing ends this but its killing.
setInterval(() => undefined, 60_000)
