import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { PlantedBug } from "../jobTransitionBugs.ts"

/** Declares a test for each bug: the property it names must fail for `module`, loaded from a copy of the domain with the bug. */
export const theyCatch = <Module>(
  plantedBugs: ReadonlyArray<PlantedBug>,
  module: string,
  properties: Readonly<Record<string, (examined: Module) => void>>,
): void => {
  describe("the properties detect", () => {
    // Beside the tests, so that the copies' imports resolve as the sources' do.
    let directory = ""
    beforeAll(async () => {
      directory = await mkdtemp(join(import.meta.dirname, "../.planted-"))
    })
    afterAll(() => rm(directory, { recursive: true, force: true }))

    for (const [n, { bug, file, from, property, to }] of plantedBugs.entries())
      it(bug, async () => {
        const copy = join(directory, String(n))
        await cp(join(import.meta.dirname, "../../src/domain"), copy, { recursive: true })
        const text = await readFile(join(copy, file), "utf8")
        expect(text.split(from).length - 1, `occurrences of ${from} in ${file}`).toBe(1)
        await writeFile(
          join(copy, file),
          text.replace(from, () => to),
        )
        const mutant = (await import(join(copy, module))) as Module
        const holds = properties[property]
        if (holds === undefined) throw new Error(`no property ${property}`)
        expect(() => holds(mutant)).toThrow("Property failed")
      })
  })
}
