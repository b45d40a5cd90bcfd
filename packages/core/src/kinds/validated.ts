import { Misuse } from "./Misuse.ts"
import type { StandardResult, StandardSchema } from "./StandardSchema.ts"

/** What a schema says of a value. One that has to be waited for, by a promise of whatever realm, or says nothing is `Misuse`. */
export const validated = <Output>(schema: StandardSchema<unknown, Output>, value: unknown): StandardResult<Output> => {
  const result: unknown = schema["~standard"].validate(value)
  if (isResult<Output>(result)) return result
  // Nobody waits for it, and nobody is to hear of it.
  if (typeof result === "object") Promise.resolve(result).catch(() => undefined)
  throw new Misuse("a schema must bring its result at once: { value }, or { issues }")
}

const isResult = <Output>(result: unknown): result is StandardResult<Output> => {
  if (typeof result !== "object" || result === null) return false
  const { issues } = result as { readonly issues?: unknown }
  return issues === undefined ? "value" in result : Array.isArray(issues)
}
