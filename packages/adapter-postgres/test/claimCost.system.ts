import { describe, expect, it } from "vitest"
import { costRatio } from "./support/claimCost.ts"
import { filledStore, oldSnapshot } from "./support/filledStore.ts"

/** A cost that grows would show as a factor of two or more here; a busy machine alone has shown 1.31. */
const maxRatio = 1.5

describe("the cost of a claim", () => {
  it("does not grow with what is finished or waits", async () => {
    await using small = await filledStore({ finished: 0, backlog: 2_000 })
    await using large = await filledStore({ finished: 100_000, backlog: 20_000 })
    await costRatio(large, small, 10)
    const { cheapMs, dearMs, ratio } = await costRatio(large, small, 80)
    expect(ratio, `${dearMs} ms against ${cheapMs} ms`).toBeLessThan(maxRatio)
  })

  it("does not grow while an old snapshot keeps what is done from being vacuumed", async () => {
    await using fresh = await filledStore({ finished: 0, backlog: 2_000 })
    await using worn = await filledStore({ finished: 0, backlog: 12_000 })
    await using _snapshot = await oldSnapshot(worn.url)
    for (let round = 0; round < 800; round += 1) await worn.claim()
    const { cheapMs, dearMs, ratio } = await costRatio(worn, fresh, 80)
    expect(ratio, `${dearMs} ms against ${cheapMs} ms`).toBeLessThan(maxRatio)
  })
})
