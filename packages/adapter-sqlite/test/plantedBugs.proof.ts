import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { TestClock } from "effect/testing"
import type * as Adapter from "@kiln/adapter-sqlite"
import { storeSections } from "@kiln/conformance"
import { withBug } from "../../../tests/planted/withBug.ts"
import { plantedBugs } from "./support/plantedBugs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

/** Returns the names of the checks of a section that fail. */
const failing = async ({ SqliteStores }: typeof Adapter, name: string): Promise<ReadonlyArray<string>> => {
  const section = storeSections.find((candidate) => candidate.name === name)
  if (section === undefined) throw new Error(`no section ${name}`)
  const names: Array<string> = []
  for (const check of section.checks) {
    const exit = await temporaryFile.pipe(
      Effect.flatMap((path) => Effect.provide(check.run, Layer.fresh(SqliteStores.layer({ path })))),
      Effect.provide(TestClock.layer()),
      Effect.scoped,
      Effect.runPromiseExit,
    )
    if (Exit.isFailure(exit)) names.push(check.name)
  }
  return names
}

describe("the conformance suite catches a shortcut that goes wrong", { timeout: 120_000 }, () => {
  for (const planted of plantedBugs)
    it(planted.bug, async () => {
      expect(await failing(await import("@kiln/adapter-sqlite"), planted.section)).toEqual([])
      const failingWithBug = await withBug(join(import.meta.dirname, ".."), planted, async (sources) =>
        failing((await import(join(sources, "index.ts"))) as typeof Adapter, planted.section),
      )
      expect(failingWithBug).not.toEqual([])
    })
})
