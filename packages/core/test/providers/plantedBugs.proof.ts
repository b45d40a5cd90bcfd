import { assert, it } from "@effect/vitest"
import { RateLimitStore } from "@kiln/core/ports"
import { MemoryStores } from "@kiln/testing"
import { Context, Effect, Layer } from "effect"
import { twoWorkers } from "./support/twoWorkers.ts"

const grantingTwice = Layer.effectContext(
  Effect.map(Layer.build(Layer.fresh(MemoryStores.layer)), (built) => {
    const { takePortions } = Context.get(built, RateLimitStore)
    return Context.add(built, RateLimitStore, {
      takePortions: (requests) =>
        Effect.map(takePortions(requests), (taken) =>
          taken.map((portion) => ({ ...portion, tokens: portion.tokens * 2 })),
        ),
    })
  }),
)

// Promise 87 of docs/invariants.md.
it.effect("two workers exceed the rate of a provider if each of their portions is granted twice", () =>
  Effect.gen(function* () {
    const { calls } = yield* twoWorkers(grantingTwice)
    assert.isAbove(calls, 68)
  }),
)
