import { describe, expect, it } from "vitest"
import { nodeProblem } from "../src/openDatabase.ts"

describe("the driver's Node", () => {
  it.each(["20.20.2", "21.7.3", "22.0.0", "22.12.0", "22.13.1"])("is not %s", (version) => {
    expect(nodeProblem(version)).toBe(`@kiln/adapter-sqlite needs Node 22.14 or newer; this is Node ${version}`)
  })

  it.each(["22.14.0", "22.23.1", "23.0.0", "24.21.0", "100.0.0"])("may be %s", (version) => {
    expect(nodeProblem(version)).toBeUndefined()
  })
})
