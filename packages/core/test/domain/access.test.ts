import { describe, expect, it } from "vitest"
import { authorize, jobModeOf, owns } from "../../src/domain/Access.ts"

const principal = { keyId: "key_1", projectId: "prj_1", mode: "live", scopes: ["audio.create"] } as const

describe("access", () => {
  it("test keys make sandbox jobs, live keys make live jobs", () => {
    expect(jobModeOf("test")).toBe("sandbox")
    expect(jobModeOf("live")).toBe("live")
  })

  it("a grant needs the scope itself", () => {
    expect(authorize(principal, "audio.create")).toBe(principal)
    expect(authorize(principal, "audio")).toBeUndefined()
  })

  it.each([
    [{}, true],
    [{ keyId: "key_2" }, false],
    [{ projectId: "prj_2" }, false],
    [{ mode: "sandbox" }, false],
  ] as const)("a record of the same project, key and mode is the principal's own: %j", (other, isOwn) => {
    expect(owns(principal, { keyId: "key_1", projectId: "prj_1", mode: "live", ...other })).toBe(isOwn)
  })
})
