import { assert } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { principal } from "../../support/harness.ts"
import { submitSpeech } from "../../support/jobs.ts"
import { jobIn } from "../support/look.ts"
import { race } from "../support/Race.ts"

export const claims = race({
  name: "claim × claim × claim: each job is claimed once",
  given: fc.record({ workers: fc.constantFrom(2, 3, 3), jobs: fc.integer({ min: 1, max: 3 }) }),
  reaches: ["1 to A, 1 to B", "1 to A, 1 to B, 1 to C"],
  run: Effect.fnUntraced(function* (world, { jobs, workers }) {
    const processes = yield* Effect.forEach(["A", "B", "C"].slice(0, workers), (name) =>
      world.process(name, { settings: { concurrency: 1 } }),
    )
    const accepted = yield* Effect.forEach(Array.from({ length: jobs }).keys(), (n) =>
      processes[0]!.does(submitSpeech(`${n}`, principal("sandbox", n % 2 === 0 ? "a" : "b"))),
    )
    yield* world.race(processes.map(({ tick }) => Effect.repeat(tick, { times: 3 })))
    for (const { id, keyId } of accepted) {
      const job = yield* jobIn(world, id, principal("sandbox", keyId.slice(4)))
      assert.deepStrictEqual([job.status, job.attempts, job.lostWorkers], ["done", 1, 0])
      assert.strictEqual(world.calls.filter((call) => call.jobId === id).length, 1)
    }
    const shares = processes.map(({ name }) => [name, world.calls.filter(({ by }) => by === name).length] as const)
    world.events.add(
      shares
        .filter(([, count]) => count > 0)
        .map(([name, count]) => `${count} to ${name}`)
        .join(", "),
    )
  }),
})
