// Claims and completes jobs until none is left. Prints the id of each job whose completion was `Written`: `workThrough.ts PATH`.
import { writeSync } from "node:fs"
import { Effect } from "effect"
import { JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../../src/index.ts"

const [path = ""] = process.argv.slice(2)
const runnable = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }] as const

const main = Effect.gen(function* () {
  const store = yield* JobStore
  while (true) {
    const { claims } = yield* store.claimJobs({
      runnable,
      limits: fixtures.noLimits,
      limit: 7,
      leaseDurationMs: 60_000,
      maxLostWorkers: 3,
    })
    if (claims.length === 0) return
    const outcomes = yield* store.completeJobs(claims.map((claim) => fixtures.completionOf(claim)))
    outcomes.forEach((outcome, index) => {
      if (outcome === "Written") writeSync(1, `${claims[index]?.job.id ?? ""}\n`)
    })
    // Lets the other processes claim.
    yield* Effect.sleep(1)
  }
})

await Effect.runPromise(Effect.provide(main, SqliteStores.layer({ path })))
