import { afterAll, beforeAll, expect, it } from "vitest"
import { openComparison } from "./support/compareClaims.ts"

let opened: Awaited<ReturnType<typeof openComparison>>
beforeAll(async () => {
  opened = await openComparison()
})
afterAll(() => opened.close())

const states = Number(process.env["STATES"] ?? 150)

it("a claim in one statement claims what the memory store claims one by one", { timeout: 3_600_000 }, async () => {
  const counts = { claimed: 0, ofManyLanes: 0, abandoned: 0, limited: 0 }
  for (let seed = 1; seed <= states; seed += 1) {
    const { expected, found, lanes, request } = await opened.compare(seed)
    expect(found, `seed ${seed}`).toEqual(expected)
    counts.abandoned += found.abandoned.length
    counts.claimed += found.claims.length
    counts.limited += request.limits.perProject > 0 ? found.claims.length : 0
    counts.ofManyLanes += lanes > 2 ? 1 : 0
  }
  expect(counts.claimed).toBeGreaterThan(500)
  expect(counts.limited).toBeGreaterThan(100)
  expect(counts.ofManyLanes).toBeGreaterThan(50)
  expect(counts.abandoned).toBeGreaterThan(5)
})

it("and the same where few jobs wait, of which one may be claimable alone", { timeout: 3_600_000 }, async () => {
  const counts = { alone: 0, withAnother: 0, later: 0 }
  for (let seed = 1; seed <= states; seed += 1) {
    const { expected, found } = await opened.compare(seed, 1 + (seed % 3))
    expect(found, `seed ${seed}`).toEqual(expected)
    counts.alone += found.claims.length === 1 && !found.isMore ? 1 : 0
    counts.later += found.claims.length === 1 && !found.isMore && found.nextInMs !== undefined ? 1 : 0
    counts.withAnother += found.claims.length > 1 || found.isMore ? 1 : 0
  }
  expect(counts.alone).toBeGreaterThan(15)
  expect(counts.later).toBeGreaterThan(5)
  expect(counts.withAnother).toBeGreaterThan(5)
})
