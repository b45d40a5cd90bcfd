import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { parseBearerToken } from "../../src/server/admission.ts"

describe("parseBearerToken", () => {
  it("reads every token, with the scheme in any case", () => {
    const token = fc
      .tuple(fc.stringMatching(/^[A-Za-z0-9._~+/-]{1,80}$/), fc.constantFrom("", "=", "=="))
      .map(([body, end]) => body + end)
    fc.assert(
      fc.property(token, fc.constantFrom("Bearer ", "bearer ", "BEARER ", "beArEr   "), (token, scheme) => {
        expect(parseBearerToken([scheme + token])).toEqual({ kind: "token", token })
      }),
    )
  })

  it("reports missing credentials only without any header", () => {
    expect(parseBearerToken(undefined)).toEqual({ kind: "missing" })
    expect(parseBearerToken([])).toEqual({ kind: "missing" })
  })

  it.each([
    [[""]],
    [["Bearer"]],
    [["Bearer "]],
    [["Basic a2V5Og=="]],
    [["kiln_test_x"]],
    [["Token abc"]],
    [["Bearerabc"]],
    [["Bearer\tabc"]],
    [["xBearer abc"]],
    [["Bearer a b"]],
    [["Bearer a, Bearer b"]],
    [["Bearer a,b"]],
    [['Bearer "a"']],
    [["Bearer =a"]],
    [["Bearer a=b"]],
    [["Bearer é"]],
    [["Bearer a\n"]],
    [["Bearer a", "Bearer a"]],
    [["Bearer a", ""]],
    [["", "Bearer a"]],
    [["Basic a2V5Og==", "Bearer a"]],
  ])("%j is malformed", (values) => expect(parseBearerToken(values)).toEqual({ kind: "malformed" }))
})
