import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { TestClock } from "effect/testing"
import { findDifference, storeSections, type Stores } from "../src/conformance/index.ts"
import type { MemoryStores } from "../src/index.ts"
import { type PlantedBug, plantedBugs } from "./plantedBugs/index.ts"

// Beside the sources, so that their imports resolve as they do there.
let directory = ""
beforeAll(async () => {
  directory = await mkdtemp(join(import.meta.dirname, ".planted-"))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

/** A copy of the memory stores with the bug in it. */
const withBug = async ({ file, edits }: PlantedBug, name: string): Promise<Layer.Layer<Stores>> => {
  const copy = join(directory, name)
  await cp(join(import.meta.dirname, "../src/memory"), copy, { recursive: true })
  let text = await readFile(join(copy, file), "utf8")
  for (const [from, to] of edits) {
    expect(text.split(from).length - 1, `occurrences of ${from} in ${file}`).toBe(1)
    text = text.replace(from, () => to)
  }
  await writeFile(join(copy, file), text)
  const module = (await import(join(copy, "MemoryStores.ts"))) as { readonly MemoryStores: typeof MemoryStores }
  return module.MemoryStores.layer
}

/** The names of the checks of a section that this store fails. */
const failing = (layer: Layer.Layer<Stores>, name: string): Promise<ReadonlyArray<string>> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const section = storeSections.find((candidate) => candidate.name === name)
      if (section === undefined) throw new Error(`no section ${name}`)
      const names: Array<string> = []
      for (const check of section.checks) {
        const exit = yield* Effect.exit(
          check.run.pipe(Effect.provide(Layer.fresh(layer)), Effect.provide(TestClock.layer())),
        )
        if (Exit.isFailure(exit)) names.push(check.name)
      }
      return names
    }),
  )

describe("the conformance suite catches", () => {
  for (const [n, planted] of plantedBugs.entries())
    it(planted.bug, async () => {
      const layer = await withBug(planted, `suite-${n}`)
      expect((await failing(layer, planted.section)).length).toBeGreaterThan(0)
    })
})

describe("the comparison with the memory stores catches", () => {
  for (const [n, planted] of plantedBugs.filter((bug) => bug.unseenInHistories !== true).entries())
    it(planted.bug, async () => {
      const layer = await withBug(planted, `comparison-${n}`)
      expect(await findDifference({ layer, runs: 2_000, seed: 1, shrink: false })).toBeTypeOf("string")
    })
})
