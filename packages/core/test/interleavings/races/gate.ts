import { assert } from "@effect/vitest"
import { Switchboard } from "@kiln/core/ports"
import { Effect } from "effect"
import * as fc from "fast-check"
import { principal } from "../../support/harness.ts"
import { openBoard, submitVoiceTurn } from "../../support/jobs.ts"
import { jobIn, later, pass, passes } from "../support/look.ts"
import { race } from "../support/Race.ts"

const live = principal("live")
/** Maximum age of a worker's read of the switchboard. */
const maxAgeMs = 500
const longestPauseMs = 60_000

export const switchOffAndRun = race({
  name: "switch off × claim × run: no provider is called with a switch off or a stale read, and no job fails for it",
  given: fc.nat(30),
  reaches: ["done at once", "given back", "not claimed", "A releaseJobs Written"],
  run: Effect.fnUntraced(function* (world, turns) {
    const [a, operator] = [yield* world.process("A", { live: true }), yield* world.process("O")]
    yield* operator.does(openBoard({ input_audio_seconds: "1", output_tokens: "1" }))
    const job = yield* operator.does(submitVoiceTurn("k", live))
    const throwSwitch = (on: boolean) =>
      operator.does(Effect.flatMap(Switchboard, (board) => board.setSwitch("audio", on)))
    yield* world.race([
      // If every read is stale, nothing is claimed.
      Effect.ignore(a.tick),
      Effect.andThen(later(world, turns), throwSwitch(false)),
      Effect.repeat(passes(world, maxAgeMs + 1, a, operator), { times: 3 }),
    ])
    const reads = world.boardReads.filter(({ by }) => by === "A")
    for (const [n, call] of world.calls.entries()) {
      const latest = reads[call.boardsRead - 1]
      assert.isTrue(latest?.board.switches.audio)
      // Neither a cached read nor a slow response may be stale.
      if (n > 0) assert.isBelow(call.at - (latest?.at ?? 0), maxAgeMs)
    }
    const before = yield* jobIn(world, job.id, live)
    assert.include(["queued", "processing", "done"], before.status)
    assert.deepStrictEqual([before.failures, before.lostWorkers], [0, 0])
    world.events.add(before.status === "done" ? "done at once" : before.attempts === 0 ? "not claimed" : "given back")
    assert.isFalse(before.held ?? false)
    yield* throwSwitch(true)
    // Longer than a job is put off for.
    yield* pass(world, longestPauseMs, a)
    yield* a.tick
    const after = yield* jobIn(world, job.id, live)
    assert.deepStrictEqual([after.status, after.failures, after.lostWorkers], ["done", 0, 0])
    assert.strictEqual(after.charge?.amount, before.charge?.amount ?? after.charge?.amount)
    assert.strictEqual(world.completions.length, 1)
  }),
})
