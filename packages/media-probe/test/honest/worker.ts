// Builds and measures every nth recipe, and sends the outcomes to the parent. `main.ts` starts several of these.
import { outcomeOf } from "./outcome.ts"
import { recipes } from "./recipes.ts"

const { decode, names } = await new Promise<{ readonly names: ReadonlyArray<string>; readonly decode: boolean }>(
  (resolve) => process.once("message", (message) => resolve(message as never)),
)
const byName = new Map(recipes.map((recipe) => [recipe.name, recipe]))
for (const name of names) {
  const recipe = byName.get(name)
  if (recipe !== undefined) process.send?.(await outcomeOf(recipe, decode || recipe.isLive))
}
process.disconnect()
