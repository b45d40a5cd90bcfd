// Creates a job in a transaction of the embedding program: `createInTransaction.ts PATH N`. Prints `created`, commits on SIGUSR2, and
// prints `committed`.
import Sqlite from "better-sqlite3"
import { Effect } from "effect"
import { CallerTransactions } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../../src/index.ts"

const [path = "", n = "1"] = process.argv.slice(2)

const main = Effect.gen(function* () {
  const { createJobs } = yield* CallerTransactions
  const told = new Promise<void>((resolve) => process.once("SIGUSR2", () => resolve()))
  const database = new Sqlite(path, { timeout: 5_000 })
  database.exec("BEGIN IMMEDIATE")
  yield* createJobs(database, [fixtures.newJob(Number(n))])
  console.log("created")
  // A pending promise does not keep a process alive.
  const alive = setInterval(() => undefined, 1_000)
  yield* Effect.promise(() => told)
  clearInterval(alive)
  database.exec("COMMIT")
  console.log("committed")
  database.close()
})

await Effect.runPromise(Effect.provide(main, SqliteStores.layer({ path })))
