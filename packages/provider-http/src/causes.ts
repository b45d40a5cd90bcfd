import { isError } from "@kiln/core/domain"

/** An error and what caused it, outermost first. Ends where the chain does, or bites its tail. */
export const causes = (error: unknown): ReadonlyArray<unknown> => {
  const seen = new Set<unknown>()
  let current = error
  while (current !== undefined && current !== null && !seen.has(current)) {
    seen.add(current)
    current = isError(current) ? current.cause : undefined
  }
  return [...seen]
}
