import { type Cluster, startCluster } from "@kiln/postgres-lab"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Clients, failureOf } from "./support/clients.ts"
import { pidOf } from "./support/pidOf.ts"

let cluster: Cluster
beforeAll(async () => {
  cluster = await startCluster({ inMemory: true, settings: { max_connections: 10, log_statement: "all" } })
})
afterAll(() => cluster.dispose())

describe("backends", () => {
  it("are listed with their name, state and query", async () => {
    await using clients = new Clients()
    const client = await clients.connect(cluster.url, "worker-1")
    await client.query("BEGIN")
    const expected = { applicationName: "worker-1", database: "kiln", state: "idle in transaction", query: "BEGIN" }
    expect(await cluster.backends()).toEqual([{ pid: expect.any(Number), ...expected }])
    expect(cluster.log()).toContain("worker-1 LOG:  statement: BEGIN")
  })

  it("respond to nothing while paused, and to everything when resumed", async () => {
    await using clients = new Clients()
    const client = await clients.connect(cluster.url, "frozen")
    const pid = await pidOf(cluster, "frozen")
    cluster.pause(pid)
    const answer = client.query("SELECT 1 AS n")
    expect(await Promise.race([answer, pidOf(cluster, "frozen")])).toBe(pid)
    cluster.resume(pid)
    expect((await answer).rows).toEqual([{ n: 1 }])
  })

  it("are canceled and terminated", async () => {
    await using clients = new Clients()
    const client = await clients.connect(cluster.url, "victim")
    const pid = await pidOf(cluster, "victim")
    const canceled = failureOf(client.query("SELECT pg_sleep(60)"))
    await expect.poll(async () => (await cluster.backends())[0]?.state).toBe("active")
    expect(await cluster.cancel(pid)).toBe(true)
    expect(await canceled).toMatchObject({ code: "57014" })
    const terminated = failureOf(client.query("SELECT pg_sleep(60)"))
    await expect.poll(async () => (await cluster.backends())[0]?.state).toBe("active")
    expect(await cluster.terminate(pid)).toBe(true)
    expect(await terminated).toMatchObject({ code: "57P01" })
    await expect.poll(() => cluster.backends()).toEqual([])
    expect(await cluster.terminate(pid)).toBe(false)
  })

  it("are listed even when clients hold all connections", async () => {
    await using clients = new Clients()
    const refused: Array<unknown> = []
    while (refused.length === 0) {
      const failure = await failureOf(clients.connect(cluster.url))
      if (failure !== undefined) refused.push(failure)
    }
    expect(refused).toMatchObject([{ code: "53300" }])
    // Three of ten are reserved for the superuser.
    await expect.poll(async () => (await cluster.backends()).length).toBe(7)
  })

  it("are the only processes that can be paused", () => {
    expect(() => cluster.pause(process.pid)).toThrow("does not belong to this server")
  })
})
