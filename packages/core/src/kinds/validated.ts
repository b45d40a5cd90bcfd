import { KindBug } from "./KindBug.ts"
import type { StandardResult, StandardSchema } from "./StandardSchema.ts"

/** Validates a value. Throws `KindBug` if the schema returns a promise, of any realm, or no result at all. */
export const validated = <Output>(schema: StandardSchema<unknown, Output>, value: unknown): StandardResult<Output> => {
  const result: unknown = schema["~standard"].validate(value)
  if (isResult<Output>(result)) return result
  // Nothing awaits the promise, so its rejection must not become an unhandled one.
  if (typeof result === "object") Promise.resolve(result).catch(() => undefined)
  throw new KindBug("a schema must return its result synchronously: { value } or { issues }")
}

const isResult = <Output>(result: unknown): result is StandardResult<Output> => {
  if (typeof result !== "object" || result === null) return false
  const { issues } = result as { readonly issues?: unknown }
  return issues === undefined ? "value" in result : Array.isArray(issues)
}
