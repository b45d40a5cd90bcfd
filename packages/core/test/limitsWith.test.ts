import { assert, describe, it } from "@effect/vitest"
import { JobKind } from "@kiln/core/kinds"
import { Effect, Schema } from "effect"
import { limitsWith } from "../src/worker/claiming/Slots.ts"

const kindOf = (name: string, concurrency?: number) =>
  JobKind({
    name,
    request: Schema.Struct({}),
    run: () => Effect.die("never run"),
    ...(concurrency !== undefined && { limits: { concurrency } }),
  })

describe("limitsWith", () => {
  it("takes the lower of the installation's limit and the kind's limit", () => {
    const kinds = [kindOf("a", 2), kindOf("b", 9), kindOf("c", 4), kindOf("d"), kindOf("constructor", 3)]
    const perKind = { a: 5, b: 5, d: 7 }
    assert.deepStrictEqual(limitsWith({ perKind, perProject: 6 }, kinds), {
      perKind: { a: 2, b: 5, c: 4, d: 7, constructor: 3 },
      perProject: 6,
    })
  })

  it("is the installation's limit if no kind has one", () => {
    const limits = { perKind: { a: 1 }, perProject: 0 }
    assert.deepStrictEqual(limitsWith(limits, [kindOf("a")]), limits)
  })

  it("has no installation-wide limit if projects get a share of each worker", () => {
    assert.deepStrictEqual(limitsWith({ perKind: {}, perProject: "share" }, []), { perKind: {}, perProject: 0 })
  })
})
