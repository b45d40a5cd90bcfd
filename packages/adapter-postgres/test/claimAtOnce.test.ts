import { afterAll, beforeAll, expect, it } from "vitest"
import { openComparison } from "./support/compareClaims.ts"

let opened: Awaited<ReturnType<typeof openComparison>>
beforeAll(async () => {
  opened = await openComparison()
})
afterAll(() => opened.close())

it("a claim in one statement claims what the rules claim, from 300 random states", { timeout: 120_000 }, async () => {
  let claimed = 0
  let several = 0
  for (let seed = 1; seed <= 300; seed += 1) {
    const { expected, found } = await opened.compare(seed)
    const { next, ...claims } = expected
    const { next: foundNext, ...foundClaims } = found
    expect(foundClaims, `seed ${seed}`).toEqual(claims)
    // A lower bound, and 0 only if there is more.
    expect(foundNext === 0, `seed ${seed}: ${foundNext}, ${next}`).toBe(next === 0)
    expect((foundNext ?? Infinity) <= (next ?? Infinity), `seed ${seed}: ${foundNext}, ${next}`).toBe(true)
    claimed += claims.held
    several += claims.served.length > 2 ? 1 : 0
  }
  expect(claimed).toBeGreaterThan(1_000)
  expect(several).toBeGreaterThan(100)
})
