import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { openStores, outcomeOf, tags, timed } from "./support/openStores.ts"

const { newJob } = fixtures
const limits = { connectTimeoutMs: 500, statementTimeoutMs: 1_000 }

describe("a network that drops everything", () => {
  it("fails verbs in bounded time, and verbs succeed once it recovers", async () => {
    await using database = await freshDatabase()
    await using proxy = await tcpProxy(database.url)
    await using stores = await openStores({ url: proxy.url, poolSize: 4, ...limits })
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(1)])))).toEqual(["Created"])
    proxy.blackHole()
    const outcomes = await Promise.all(
      [2, 3, 4, 5].map((n) => timed(() => outcomeOf(stores.jobs.createJobs([newJob(n)])))),
    )
    for (const { outcome, tookMs } of outcomes) {
      expect(outcome).toBe("StoreUnavailable")
      expect(tookMs).toBeLessThan(10_000)
    }
    await proxy.pass()
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(6)])))).toEqual(["Created"])
  })

  it("at the statement of a creation: the verb fails as unknown in bounded time, and a repeat finds out", async () => {
    await using database = await freshDatabase()
    await using proxy = await tcpProxy(database.url)
    await using stores = await openStores({ url: proxy.url, poolSize: 4, retryForMs: 1_000, ...limits })
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(1)])))).toEqual(["Created"])
    const performed = proxy.dropAnswer(/accept_job/)
    void performed.then(() => proxy.blackHole())
    const { outcome, tookMs } = await timed(() => outcomeOf(stores.jobs.createJobs([newJob(2)])))
    await performed
    expect(outcome).toBe("StoreUnavailable")
    expect(tookMs).toBeLessThan(10_000)
    await proxy.pass()
    expect(tags(await outcomeOf(stores.jobs.createJobs([newJob(2)])))).toEqual(["Replayed"])
  })

  it("does not prevent stores from closing", async () => {
    await using database = await freshDatabase()
    await using proxy = await tcpProxy(database.url)
    const stores = await openStores({ url: proxy.url, notifications: true, ...limits })
    await outcomeOf(stores.jobs.createJobs([newJob(1)]))
    proxy.blackHole()
    expect((await timed(() => stores.close())).tookMs).toBeLessThan(5_000)
  })
})

describe("a process that opens stores, and closes them", () => {
  const script = join(import.meta.dirname, "support/openAndClose.ts")
  /** What it says, once it has ended by itself. */
  const openAndClose = async (url: string): Promise<{ readonly outcome: string; readonly tookMs: number }> =>
    JSON.parse((await promisify(execFile)(process.execPath, ["--conditions=@kiln/source", script, url])).stdout)

  it("ends by itself", async () => {
    await using database = await freshDatabase()
    expect(await openAndClose(database.url)).toMatchObject({ outcome: "open" })
  })

  const places = {
    "with a wrong password": (url: URL) => (url.password = "wrong"),
    "as a user that is not there": (url: URL) => (url.username = "nobody"),
    "to a database that is not there": (url: URL) => (url.pathname = "/nothing"),
    "to a port at which nobody is": (url: URL) => (url.port = "1"),
    "to a host that is not there": (url: URL) => (url.hostname = "nowhere.invalid"),
  }
  it.each(Object.entries(places))("%s fails quickly, and ends by itself", async (_, change) => {
    await using database = await freshDatabase()
    const url = new URL(database.url)
    change(url)
    const { outcome, tookMs } = await openAndClose(url.href)
    expect(outcome).toBe("StoreUnavailable")
    expect(tookMs).toBeLessThan(5_000)
  })

  it("to a host that never answers fails quickly, and ends by itself", async () => {
    await using database = await freshDatabase()
    await using proxy = await tcpProxy(database.url)
    proxy.blackHole()
    const { outcome, tookMs } = await openAndClose(proxy.url)
    expect(outcome).toBe("StoreUnavailable")
    expect(tookMs).toBeLessThan(5_000)
  })
})
