import { join } from "node:path"
import type * as Adapter from "@kiln/adapter-blobs"
import { describe, expect, it } from "vitest"
import { Effect, Exit } from "effect"
import { withBug } from "../../../tests/planted/withBug.ts"
import { type PlantedBug, plantedBugs } from "./support/plantedBugs.ts"

const passes = async ({ check }: PlantedBug, adapter: typeof Adapter): Promise<boolean> =>
  Exit.isSuccess(await Effect.runPromiseExit(Effect.scoped(check(adapter))))

describe("a blob store with a planted bug is detected", { timeout: 60_000 }, () => {
  for (const planted of plantedBugs)
    it(planted.bug, async () => {
      expect(await passes(planted, await import("@kiln/adapter-blobs"))).toBe(true)
      const passesWithBug = await withBug(join(import.meta.dirname, ".."), planted, async (sources) =>
        passes(planted, (await import(join(sources, "index.ts"))) as typeof Adapter),
      )
      expect(passesWithBug).toBe(false)
    })
})
