import { guardedFetch } from "@kiln/provider-http"
import { expect, it } from "vitest"

/** A value as untyped JavaScript passes it, or a spread that hides it from the compiler. */
const given = (value: unknown): never => value as never

it.each([
  [
    { maxBytes: 1, trustedOrigin: [] },
    'unknown option "trustedOrigin" in guardedFetch(); did you mean "trustedOrigins"?',
  ],
  // No length would be too long.
  [{}, "maxBytes must be a non-negative number"],
  [{ maxBytes: Number.NaN }, "maxBytes must be a non-negative number, not NaN"],
])("rejects the options %j", (options, message) => {
  expect(() => guardedFetch(given(options))).toThrow(message)
})
