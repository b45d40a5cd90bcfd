import { assert, describe, it } from "@effect/vitest"
import { JobStore } from "@kiln/core/ports"
import { Effect, Logger } from "effect"
import { expireWhileHolding } from "../src/worker/maintenance/Sweeper.ts"
import { makeOutage, storeDown, storesWith } from "./support/faults.ts"
import { within } from "./support/harness.ts"
import { passTime } from "./support/virtualTime.ts"

describe("an unavailable store", () => {
  it.effect("is logged once a minute with operation and cause, and once when it is back", () => {
    const outage = makeOutage(storeDown)
    const lines: Array<string> = []
    const capture = Logger.layer([Logger.map(Logger.formatLogFmt, (line) => void lines.push(line))])
    const about = (text: string) => lines.filter((line) => line.includes(text))
    return Effect.gen(function* () {
      yield* Effect.forkScoped(expireWhileHolding(() => true))
      yield* passTime("10 seconds")
      assert.deepStrictEqual(lines, [])
      yield* outage.begin
      yield* passTime("150 seconds")
      assert.strictEqual(about("claiming jobs: failed; trying again").length, 3)
      assert.include(about("claiming jobs: failed")[0], "(test): down")
      assert.strictEqual(about("looking for overdue jobs: failed; trying again").length, 3)
      yield* outage.end
      yield* passTime("10 seconds")
      assert.strictEqual(about("claiming jobs: works again, after").length, 1)
      assert.strictEqual(about("claiming jobs").length, 4)
      assert.strictEqual(about("looking for overdue jobs").length, 4)
    }).pipe(
      within({
        stores: storesWith(JobStore, (verbs) => ({
          claimJobs: (request) => outage.strikes(verbs.claimJobs(request)),
          expireJobs: (limit) => outage.strikes(verbs.expireJobs(limit)),
        })),
        worker: "running",
      }),
      Effect.provide(capture),
    )
  })
})
