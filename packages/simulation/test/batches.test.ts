import { JobKind } from "@kiln/core/kinds"
import { MemoryStores } from "@kiln/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { expect, it } from "vitest"
import { simulate } from "../src/index.ts"

/** A kind whose calls take longer than the kills and pauses of a simulation are apart. */
const batched = () => {
  const sizes: Array<number> = []
  const left: Array<number> = []
  const kind = JobKind({
    name: "embed",
    request: Schema.Struct({ text: Schema.String.check(Schema.isMinLength(1)) }),
    example: { text: "Clay." },
    output: Schema.Struct({ text: Schema.String }),
    batch: { size: 3, waitMs: 300 },
    run: Effect.fnUntraced(function* (jobs) {
      sizes.push(jobs.length)
      for (const { onLeave } of jobs) onLeave(() => void left.push(jobs.length))
      yield* Effect.sleep(40_000)
      return jobs.map(({ request: { text } }) => Exit.succeed({ output: { text }, files: [], usage: {} }))
    }),
  })
  return { kind, sizes, left }
}

const [firstSeed, lastSeed] = [14, 15]

it(`batches keep every promise, whatever goes wrong around them: seeds ${firstSeed} to ${lastSeed}`, () => {
  const { kind, left, sizes } = batched()
  for (let seed = firstSeed; seed <= lastSeed; seed++) {
    for (const mode of ["safety", "liveness"] as const) {
      const stores = Effect.runSync(Effect.scoped(Layer.build(Layer.fresh(MemoryStores.layer))))
      const { finished, jobs, violation } = simulate(stores, { seed, mode, jobs: 12, kinds: [kind] })
      const ended = mode === "liveness" ? finished : jobs
      expect({ seed, mode, violation, ended }).toEqual({ seed, mode, violation: undefined, ended: jobs })
    }
  }
  // Otherwise, it would say nothing about batches.
  expect([sizes, left].map((of) => Math.max(...of) > 1)).toEqual([true, true])
})
