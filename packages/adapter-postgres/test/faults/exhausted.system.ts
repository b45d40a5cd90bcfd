import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { fixtures } from "@kiln/conformance"
import { useCluster } from "./support/databases.ts"
import { must, openStores, outcomeOf, tags, timed } from "./support/openStores.ts"
import { session } from "./support/session.ts"
import { until } from "./support/until.ts"
import { claimRequest } from "./support/writingVerbs.ts"

const { leaseDurationMs, newJob, newUpload } = fixtures
const cluster = useCluster({ settings: { max_connections: 10 } })

describe("exhausted connections", () => {
  it("of the server (53300): verbs that need a new connection fail immediately, others continue", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false, poolSize: 2 })
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(1)])))).toEqual(["Created"])
    const [claim] = (await Effect.runPromise(stores.jobs.claimJobs(claimRequest))).claims
    const beat = stores.jobs.extendLeases([{ jobId: newJob(1).id, token: must(claim).token, leaseDurationMs }])
    const others: Array<AsyncDisposable> = []
    try {
      const refused = await until(() =>
        session(database.url).then(
          (one) => void others.push(one),
          (error: unknown) => (error as { readonly code?: string }).code,
        ),
      )
      expect(refused).toBe("53300")
      const { outcome, tookMs } = await timed(() => outcomeOf(beat))
      expect(outcome, "its connection is not made yet").toBe("StoreUnavailable")
      expect(tookMs).toBeLessThan(2_000)
      expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(2)])))).toEqual(["Created"])
    } finally {
      for (const other of others) await other[Symbol.asyncDispose]()
    }
    expect(await until(async () => (tags(await outcomeOf(beat))[0] === "Extended" ? true : undefined))).toBe(true)
  })

  it("of the pool: other verbs fail in bounded time, and heartbeats extend their leases", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false, poolSize: 3, connectTimeoutMs: 1_000 })
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(1)])))).toEqual(["Created"])
    const [claim] = (await Effect.runPromise(stores.jobs.claimJobs(claimRequest))).claims
    await using other = await session(database.url)
    await other.query('BEGIN; LOCK TABLE "kiln".uploads')
    const busy = [1, 2].map((n) => outcomeOf(stores.uploads.createUploads([newUpload(n)])))
    await until(async () => ((await cluster.backendsOf("kiln")).length >= 2 ? true : undefined))
    await cluster.waiting()
    const creating = timed(() => outcomeOf(stores.jobs.createJobs([newJob(2)])))
    for (let beats = 0; beats < 5; beats++)
      expect(
        await outcomeOf(stores.jobs.extendLeases([{ jobId: newJob(1).id, token: must(claim).token, leaseDurationMs }])),
      ).toEqual([{ _tag: "Extended", leaseRemainingMs: leaseDurationMs }])
    expect((await creating).outcome).toBe("StoreUnavailable")
    expect((await creating).tookMs).toBeLessThan(5_000)
    await other.query("COMMIT")
    for (const outcome of await Promise.all(busy)) expect(outcome).toHaveLength(1)
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(2)])))).toEqual(["Created"])
  })
})
