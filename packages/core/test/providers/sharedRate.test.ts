import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { twoWorkers } from "./support/twoWorkers.ts"

describe("the rate of a provider that two workers share", () => {
  it.effect("holds for both together, is used, and fails no job", () =>
    Effect.gen(function* () {
      const { calls, failures } = yield* twoWorkers()
      // 60 a minute and 8 at once.
      assert.isAtMost(calls, 68)
      assert.isAtLeast(calls, 60)
      assert.strictEqual(failures, 0)
    }),
  )
})
