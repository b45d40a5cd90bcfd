import { isDate } from "@kiln/core/domain"

/**
 * Returns whether a value matches: of an object, the given fields; of a list, every item; anything else exactly. Supports
 * matchers of vitest and jest (`expect.stringContaining(…)`).
 */
export const matches = (actual: unknown, expected: unknown): boolean => {
  if (typeof expected !== "object" || expected === null) return Object.is(actual, expected)
  if (isMatcher(expected)) return expected.asymmetricMatch(actual)
  if (typeof actual !== "object" || actual === null) return false
  if (isDate(expected)) return isDate(actual) && actual.getTime() === expected.getTime()
  if (Array.isArray(expected))
    return (
      Array.isArray(actual) &&
      actual.length === expected.length &&
      expected.every((item, index) => matches(actual[index], item))
    )
  return Object.entries(expected).every(
    ([name, value]) => Object.hasOwn(actual, name) && matches((actual as Record<string, unknown>)[name], value),
  )
}

const isMatcher = (value: object): value is { readonly asymmetricMatch: (actual: unknown) => boolean } =>
  "asymmetricMatch" in value && typeof value.asymmetricMatch === "function"
