import { afterAll, beforeAll, expect, it } from "vitest"
import { openComparison } from "./support/compareClaims.ts"

let opened: Awaited<ReturnType<typeof openComparison>>
beforeAll(async () => {
  opened = await openComparison()
})
afterAll(() => opened.close())

it("a claim in one statement claims what the rules claim, from 300 random states", { timeout: 180_000 }, async () => {
  const counts = { claimed: 0, ofManyLanes: 0, left: 0 }
  for (let seed = 1; seed <= 300; seed += 1) {
    const { expected, found } = await opened.compare(seed)
    expect(found, `seed ${seed}`).toEqual(expected)
    counts.left += "isLeft" in found && found.isLeft ? 1 : 0
    counts.claimed += "claims" in found ? found.claims.length : 0
    counts.ofManyLanes += "served" in found && found.served.length > 2 ? 1 : 0
  }
  expect(counts.claimed).toBeGreaterThan(1_000)
  expect(counts.ofManyLanes).toBeGreaterThan(100)
  expect(counts.left).toBeGreaterThan(10)
})
