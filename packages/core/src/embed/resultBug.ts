import { readSafely } from "../domain/realms.ts"
import { KindBug } from "../kinds/KindBug.ts"

/** The bug of a function that returns something else than a result; `undefined` if it returns one, or nothing. */
export const resultBug = (outcome: unknown): KindBug | undefined => {
  if (outcome === undefined) return undefined
  const shown = outcome === null ? "null" : Array.isArray(outcome) ? "a list" : `a ${typeof outcome}`
  if (typeof outcome !== "object" || outcome === null || Array.isArray(outcome))
    return new KindBug(`run returned ${shown}: return { output: { … } }, or nothing`)
  const names = readSafely(() => Object.keys(outcome)) ?? []
  if (names.length === 0 || readSafely(() => "output" in outcome) !== false) return undefined
  const wrong = names.find((name) => name !== "usage" && name !== "warningCode")
  return wrong === undefined
    ? undefined
    : new KindBug(`run returned an object with "${wrong}" and without "output": return { output: { ${wrong}, … } }`)
}
