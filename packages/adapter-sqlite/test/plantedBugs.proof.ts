import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { TestClock } from "effect/testing"
import type * as Adapter from "@kiln/adapter-sqlite"
import { storeSections } from "@kiln/conformance"
import { type PlantedBug, plantedBugs } from "./support/plantedBugs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

/** Next to the sources, so that imports in the copies resolve the same way. */
let directory = ""
beforeAll(async () => {
  directory = await mkdtemp(join(import.meta.dirname, "../.planted-"))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const copyWith = async ({ bug, file, from, to }: PlantedBug): Promise<typeof Adapter> => {
  const copy = join(directory, bug.replaceAll(" ", "-"))
  await cp(join(import.meta.dirname, "../src"), copy, { recursive: true })
  const text = await readFile(join(copy, file), "utf8")
  expect(text.split(from), `${file} must contain this text exactly once: ${from}`).toHaveLength(2)
  await writeFile(
    join(copy, file),
    text.replace(from, () => to),
  )
  return (await import(join(copy, "index.ts"))) as typeof Adapter
}

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
      expect(await failing(await copyWith(planted), planted.section)).not.toEqual([])
    })
})
