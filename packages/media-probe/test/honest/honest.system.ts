import { describe, expect, it } from "vitest"
import { readExpected } from "./expected.ts"
import { outcomeOf } from "./outcome.ts"
import { pick, type Recipe } from "./Recipe.ts"
import { isUnsupported, recipes } from "./recipes.ts"
import { missingTools } from "./tools.ts"

const expected = readExpected()

/** Seconds that a measurement may differ from a full decode. */
const TOLERANCE_SECONDS = 0.1

/** One short file of every encoder and container. `pnpm audio:honest` measures all of them, and browsers' recordings. */
const sample = (): ReadonlyArray<Recipe> => {
  const groups = new Map<string, Array<Recipe>>()
  for (const recipe of recipes)
    if (expected.seconds.has(recipe.name) && recipe.source.seconds <= 3)
      groups.set(recipe.group, [...(groups.get(recipe.group) ?? []), recipe])
  return [...groups.values()].map((group) => pick(group, "sample"))
}

describe("an honest file", () => {
  it("has a unique name, and there are many", () => {
    expect(new Set(recipes.map(({ name }) => name)).size).toBe(recipes.length)
    expect(expected.seconds.size).toBeGreaterThan(3000)
  })

  it.concurrent.for(sample())("$name", async (recipe, { expect, skip }) => {
    const noTool = `not installed: ${missingTools(recipe.tools).join(", ")}`
    skip(missingTools(recipe.tools).length > 0, noTool)
    const { failure, probed, refusal } = await outcomeOf(recipe, false)
    if (refusal !== undefined && isUnsupported(recipe)) return
    expect({ failure, refusal }).toEqual({ failure: undefined, refusal: undefined })
    const seconds = expected.seconds.get(recipe.name) ?? NaN
    expect(Math.abs((probed ?? NaN) - seconds), `${probed} s instead of ${seconds} s`).toBeLessThanOrEqual(
      TOLERANCE_SECONDS,
    )
  })
})
