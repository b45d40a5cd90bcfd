import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { monotonicMs } from "../../src/domain/monotonicMs.ts"

it.effect("the monotonic clock counts milliseconds", () =>
  Effect.gen(function* () {
    const before = yield* monotonicMs
    yield* TestClock.adjust("1500 millis")
    assert.strictEqual((yield* monotonicMs) - before, 1_500)
  }),
)
