// Creates jobs, three at a time, until it is killed, and prints the number of the last one once the store has confirmed
// it: `createJobsForever.ts PATH`.
import { writeSync } from "node:fs"
import { Effect } from "effect"
import { JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { JsonStores } from "../JsonStores.ts"

const [path = ""] = process.argv.slice(2)

const main = Effect.gen(function* () {
  const store = yield* JobStore
  for (let n = 1; ; n += 3) {
    yield* store.createJobs([n, n + 1, n + 2].map((number) => fixtures.newJob(number)))
    writeSync(1, `${n + 2}\n`)
  }
})

await Effect.runPromise(Effect.provide(main, JsonStores.layer({ path })))
