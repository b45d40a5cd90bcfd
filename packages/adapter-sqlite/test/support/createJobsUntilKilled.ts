// Creates jobs, three at a time, until it is killed. Prints the ids of each batch as soon as the store has acknowledged it: `createJobsUntilKilled.ts PATH`.
import { writeSync } from "node:fs"
import { Effect } from "effect"
import { JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../../src/index.ts"

const [path = ""] = process.argv.slice(2)

const main = Effect.gen(function* () {
  const store = yield* JobStore
  for (let n = 1; ; n += 3) {
    const jobs = [n, n + 1, n + 2].map((number) => fixtures.newJob(number))
    const created = (yield* store.createJobs(jobs)).flatMap((outcome) =>
      outcome._tag === "Created" ? outcome.job.id : [],
    )
    writeSync(1, `${created.join(" ")}\n`)
  }
})

await Effect.runPromise(Effect.provide(main, SqliteStores.layer({ path })))
