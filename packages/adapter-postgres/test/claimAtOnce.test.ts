import { afterAll, beforeAll, expect, it } from "vitest"
import { openComparison } from "./support/compareClaims.ts"

let opened: Awaited<ReturnType<typeof openComparison>>
beforeAll(async () => {
  opened = await openComparison()
})
afterAll(() => opened.close())

const seeds = Number(process.env["SEEDS"] ?? 300)
it("a claim in one statement claims what the rules claim, from 300 random states", { timeout: 1_800_000 }, async () => {
  const counts = { claimed: 0, ofManyLanes: 0, abandoned: 0, limited: 0 }
  for (let seed = 1; seed <= seeds; seed += 1) {
    const { expected, found, request } = await opened.compare(seed)
    expect(found, `seed ${seed} ${JSON.stringify(request)}`).toEqual(expected)
    counts.abandoned += found.abandoned.length
    counts.claimed += found.claims.length
    counts.limited += request.limits.perProject > 0 ? found.claims.length : 0
    counts.ofManyLanes += found.served.length > 2 ? 1 : 0
  }
  console.log(counts)
  expect(counts.claimed).toBeGreaterThan(1_000)
  expect(counts.ofManyLanes).toBeGreaterThan(100)
  expect(counts.abandoned).toBeGreaterThan(10)
})

it(
  "a claim of a job that is claimable alone is the one that the rules make, from 300 random states",
  { timeout: 180_000 },
  async () => {
    const counts = { alone: 0, withAnother: 0, later: 0 }
    for (let seed = 1; seed <= 300; seed += 1) {
      const { expected, found } = await opened.compare(seed, 1 + (seed % 3))
      expect(found, `seed ${seed}`).toEqual(expected)
      counts.alone += found.claims.length === 1 && !found.isMore ? 1 : 0
      counts.later += found.claims.length === 1 && !found.isMore && found.next !== undefined ? 1 : 0
      counts.withAnother += found.claims.length > 1 || found.isMore ? 1 : 0
    }
    expect(counts.alone).toBeGreaterThan(50)
    expect(counts.later).toBeGreaterThan(10)
    expect(counts.withAnother).toBeGreaterThan(20)
  },
)
