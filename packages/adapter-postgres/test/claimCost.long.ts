import { describe, expect, it } from "vitest"
import { startCluster } from "@kiln/postgres-lab"
import { costRatio } from "./support/claimCost.ts"
import { filledStore, oldSnapshot } from "./support/filledStore.ts"

const rounds = 300

const report = (what: string, { cheapMs, dearMs, ratio }: Awaited<ReturnType<typeof costRatio>>): void => {
  const times = `median ${dearMs.toFixed(2)} ms against ${cheapMs.toFixed(2)} ms`
  process.stdout.write(`figure: a claim of ten jobs on Postgres ${what}: ${ratio.toFixed(2)} times (${times})\n`)
}

// On a server that syncs to its disk, one after the other: each has the machine.
describe("the cost of a claim", { timeout: 1_800_000 }, () => {
  it("is the same with 1,000,000 finished jobs and a backlog of 100,000", async () => {
    await using cluster = await startCluster({ fsync: true, settings: { synchronous_commit: "on" } })
    await using small = await filledStore({ finished: 0, backlog: 5_000 }, cluster.adminUrl)
    await using large = await filledStore({ finished: 1_000_000, backlog: 100_000 }, cluster.adminUrl)
    await costRatio(large, small, 20)
    const cost = await costRatio(large, small, rounds)
    report("with 1,000,000 finished and 100,000 waiting, against an empty table", cost)
    expect(cost.ratio).toBeLessThan(1.3)
  })

  it("is the same after a minute of work under an old snapshot", async () => {
    await using cluster = await startCluster({ fsync: true, settings: { synchronous_commit: "on" } })
    await using fresh = await filledStore({ finished: 0, backlog: 5_000 }, cluster.adminUrl)
    await using worn = await filledStore({ finished: 0, backlog: 200_000 }, cluster.adminUrl)
    await using _snapshot = await oldSnapshot(worn.url)
    const until = performance.now() + 60_000
    let claims = 0
    // A fast machine takes most of the backlog in less than a minute.
    for (; performance.now() < until && claims < 18_000; claims += 1) await worn.claim()
    const cost = await costRatio(worn, fresh, rounds)
    report(`after ${claims * 10} jobs under a snapshot as old as these, against an empty table`, cost)
    expect(cost.ratio).toBeLessThan(1.3)
  })
})
