import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { fixtures } from "@kiln/conformance"
import { useCluster } from "./support/databases.ts"
import { must, openStores, outcomeOf, tags, timed } from "./support/openStores.ts"
import { session } from "./support/session.ts"
import { until } from "./support/until.ts"
import { claimRequest, findJob } from "./support/writingVerbs.ts"

const { completionOf, leaseDurationMs, newJob } = fixtures
const holdLocks = join(import.meta.dirname, "support/holdLocks.ts")
const cluster = useCluster()

describe("a terminated backend", () => {
  it("that was idle is not noticed", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false })
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(1)])))).toEqual(["Created"])
    const [claim] = (await Effect.runPromise(stores.jobs.claimJobs(claimRequest))).claims
    const extend = stores.jobs.extendLeases([{ jobId: newJob(1).id, token: must(claim).token, leaseDurationMs }])
    expect(tags(await outcomeOf(extend))).toEqual(["Extended"])
    for (const application of ["kiln", "kiln heartbeats"])
      for (const { pid } of await cluster.backendsOf(application)) await cluster.server.terminate(pid)
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(2)])))).toEqual(["Created"])
    expect(tags(await outcomeOf(extend))).toEqual(["Extended"])
  })

  it("in the middle of a transaction: the step is retried, once", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false, reconnectForMs: 10_000 })
    await using other = await session(database.url)
    await other.query('BEGIN; LOCK TABLE "kiln".jobs')
    const creating = outcomeOf(stores.jobs.createJobs([newJob(1)]))
    const pid = await cluster.waiting()
    await cluster.server.terminate(pid)
    await until(async () => ((await cluster.waiting()) === pid ? undefined : true))
    await other.query("COMMIT")
    expect(tags(await creating)).toEqual(["Created"])
    expect((await other.query('SELECT FROM "kiln".jobs')).rowCount).toBe(1)
  })
})

describe("a process that freezes in the middle of a transaction", () => {
  it("releases its locks: its server session ends by itself", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false })
    await outcomeOf(stores.jobs.createJobs([newJob(1)]))
    const [claim] = (await Effect.runPromise(stores.jobs.claimJobs(claimRequest))).claims
    const child = spawn(process.execPath, ["--conditions=@kiln/source", holdLocks, database.url, newJob(1).id], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    try {
      await once(child.stdout, "data")
      child.kill("SIGSTOP")
      const completing = timed(() => outcomeOf(stores.jobs.completeJobs([completionOf(must(claim))])))
      await cluster.waiting()
      const { outcome, tookMs } = await completing
      expect(outcome).toEqual(["Written"])
      // It may take a second; its caller then retries.
      expect(tookMs).toBeLessThan(5_000)
      expect((await cluster.backendsOf("kiln")).filter(({ state }) => state?.startsWith("idle in"))).toEqual([])
    } finally {
      child.kill("SIGKILL")
      await once(child, "close")
    }
  })
})

describe("a canceled statement", () => {
  it("fails its verb, writes nothing, and keeps the connection", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false })
    await using other = await session(database.url)
    await other.query('BEGIN; LOCK TABLE "kiln".jobs')
    const creating = outcomeOf(stores.jobs.createJobs([newJob(1)]))
    const pid = await cluster.waiting()
    await cluster.server.cancel(pid)
    expect(await creating).toBe("StoreUnavailable")
    await other.query("COMMIT")
    expect(await findJob(stores, 1)).toBeUndefined()
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(1)])))).toEqual(["Created"])
    expect((await cluster.backendsOf("kiln")).map((backend) => backend.pid)).toContain(pid)
  })
})

describe("a frozen backend", () => {
  it("fails only the verb that uses it, in bounded time", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false, poolSize: 3, statementTimeoutMs: 1_000 })
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(1)])))).toEqual(["Created"])
    const frozen = await cluster.backendsOf("kiln")
    for (const { pid } of frozen) cluster.server.pause(pid)
    try {
      const [met, other] = await Promise.all([
        timed(() => outcomeOf(stores.jobs.createJobs([newJob(2)]))),
        pause(50).then(() => timed(() => outcomeOf(stores.jobs.createJobs([newJob(3)])))),
      ])
      expect(met.outcome).toBe("StoreUnavailable")
      // Twice the statement's time, and then the connection is cut.
      expect(met.tookMs).toBeLessThan(6_000)
      expect(tags(other.outcome)).toEqual(["Created"])
    } finally {
      for (const { pid } of frozen) cluster.server.resume(pid)
    }
    // The frozen backend had received the statement, and may run it now.
    expect(["Created", "Replayed"]).toContain(tags(await outcomeOf(stores.jobs.createJobs([newJob(2)])))?.[0])
    expect((await findJob(stores, 2))?.status).toBe("queued")
  })

  it("of the heartbeats fails one heartbeat; the next uses another connection", async () => {
    await using database = await cluster.database()
    await using stores = await openStores({ url: database.url, migrate: false })
    await outcomeOf(stores.jobs.createJobs([newJob(1)]))
    const [claim] = (await Effect.runPromise(stores.jobs.claimJobs(claimRequest))).claims
    const beat = () =>
      outcomeOf(stores.jobs.extendLeases([{ jobId: newJob(1).id, token: must(claim).token, leaseDurationMs }]))
    expect(tags(await beat())).toEqual(["Extended"])
    const frozen = await cluster.backendsOf("kiln heartbeats")
    for (const { pid } of frozen) cluster.server.pause(pid)
    try {
      const { outcome, tookMs } = await timed(beat)
      expect(outcome).toBe("StoreUnavailable")
      // A lease of 30 s has room for another beat.
      expect(tookMs).toBeLessThan(10_000)
      expect(tags(await beat())).toEqual(["Extended"])
    } finally {
      for (const { pid } of frozen) cluster.server.resume(pid)
    }
  })
})
