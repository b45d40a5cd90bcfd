import { isError } from "@kiln/core/domain"

/** Returns an error and its causes, outermost first. Stops at a cycle. */
export const causes = (error: unknown): ReadonlyArray<unknown> => {
  const seen = new Set<unknown>()
  let current = error
  while (current !== undefined && current !== null && !seen.has(current)) {
    seen.add(current)
    current = isError(current) ? current.cause : undefined
  }
  return [...seen]
}
