import { assert } from "@effect/vitest"
import { Operator } from "@kiln/core/effect"
import { Effect, Fiber } from "effect"
import * as fc from "fast-check"
import { submitSpeech } from "../../support/jobs.ts"
import {
  blobsIn,
  bringToEnd,
  jobIn,
  later,
  leaseDurationMs,
  passes,
  sweepAll,
  ticks,
  verifyDoneOnce,
} from "../support/look.ts"
import type { Process } from "../support/Process.ts"
import { race } from "../support/Race.ts"

const cancels = (process: Process, jobId: `job_${string}`) =>
  process.does(Effect.result(Effect.flatMap(Operator, (operator) => operator.cancel(jobId))))

export const cancelAndComplete = race({
  name: "cancel × complete × takeover: canceled without result and charge, or done as if no cancellation was requested",
  given: fc.record({ turns: fc.nat(10), takesOver: fc.boolean() }),
  reaches: ["done", "canceled", "A completeJobs LeaseLost", "refused"],
  run: Effect.fnUntraced(function* (world, { takesOver, turns }) {
    const [a, b, o] = [yield* world.process("A"), yield* world.process("B"), yield* world.process("O")]
    const { id } = yield* a.does(submitSpeech("k"))
    const attempt = yield* a.startsAttempt()
    let answer: string | undefined
    yield* world.race([
      Fiber.join(attempt),
      takesOver ? Effect.andThen(passes(world, leaseDurationMs, b), ticks(world, b, id, 3)) : Effect.void,
      Effect.gen(function* () {
        yield* later(world, turns)
        const result = yield* cancels(o, id)
        answer = result._tag === "Success" ? "canceled" : result.failure._tag
        // From the moment of the response, nothing changes it.
        const job = yield* jobIn(world, id)
        if (answer === "canceled") assert.strictEqual(job.errorCode, "canceled_by_operator")
        else assert.strictEqual(job.status, "done")
      }),
    ])
    yield* bringToEnd(world, b, id)
    const job = yield* jobIn(world, id)
    if (answer !== "canceled") {
      assert.strictEqual(answer, "JobFinished")
      world.events.add("refused")
      world.events.add("done")
      return yield* verifyDoneOnce(world, o, id)
    }
    world.events.add("canceled")
    assert.deepStrictEqual([job.errorCode, job.output, job.files, job.charge], ["canceled_by_operator", null, [], null])
    assert.deepStrictEqual(world.completions, [])
    yield* sweepAll(o)
    assert.deepStrictEqual(yield* blobsIn(world), [])
    return job
  }),
})
