import { describe, expect, it } from "vitest"
import { AliveKeys } from "../../src/pages/AliveKeys.ts"

const keys = () => new AliveKeys({ lifetimeMs: 1_000, mostOfAddress: 2, mostOfAll: 3 })

describe("AliveKeys", () => {
  it("allows an address so many at once, and says when the next is allowed", () => {
    const alive = keys()
    expect([alive.take("a", 0), alive.take("a", 400), alive.take("a", 500)]).toEqual([0, 0, 500])
    expect([alive.take("a", 999), alive.take("a", 1_000), alive.take("a", 1_000)]).toEqual([1, 0, 400])
  })

  it("allows all addresses together so many", () => {
    const alive = keys()
    expect([alive.take("a", 0), alive.take("b", 100), alive.take("c", 200), alive.take("d", 300)]).toEqual([
      0, 0, 0, 700,
    ])
    expect([alive.take("d", 1_000), alive.take("e", 1_000)]).toEqual([0, 100])
  })

  it("does not count a key that was not created", () => {
    const alive = keys()
    alive.take("a", 0)
    alive.take("a", 0)
    alive.giveBack("a")
    expect([alive.take("a", 1), alive.take("a", 1)]).toEqual([0, 999])
  })
})
