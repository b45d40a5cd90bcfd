import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type * as Adapter from "@kiln/adapter-blobs"
import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { type PlantedBug, plantedBugs } from "./support/plantedBugs.ts"

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

const passes = (planted: PlantedBug, adapter: typeof Adapter) =>
  Effect.map(Effect.exit(Effect.scoped(planted.check(adapter))), Exit.isSuccess)

describe("a blob store with a planted bug is detected", { timeout: 60_000 }, () => {
  for (const planted of plantedBugs)
    it.live(planted.bug, () =>
      Effect.gen(function* () {
        expect(yield* passes(planted, yield* Effect.promise(() => import("@kiln/adapter-blobs")))).toBe(true)
        expect(yield* passes(planted, yield* Effect.promise(() => copyWith(planted)))).toBe(false)
      }),
    )
})
