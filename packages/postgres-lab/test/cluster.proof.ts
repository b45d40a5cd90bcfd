import { existsSync } from "node:fs"
import { type Cluster, startCluster } from "@kiln/postgres-lab"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { childrenOf, isAnyRunning } from "../src/processes.ts"
import { ask, Clients, failureOf } from "./support/clients.ts"
import { pidOf } from "./support/pidOf.ts"

let cluster: Cluster
beforeAll(async () => {
  cluster = await startCluster({ fsync: true, settings: { max_connections: 10 } })
  await ask(cluster.url, "CREATE TABLE jobs (id serial)")
})
afterAll(() => cluster.dispose())

describe("a cluster keeps its port and committed data", () => {
  const ways: ReadonlyArray<readonly [string, () => Promise<void>]> = [
    ["an immediate restart", () => cluster.restart("immediate")],
    ["a fast restart", () => cluster.restart("fast")],
    ["SIGKILL", () => cluster.kill9().then(() => cluster.start())],
  ]
  it.each(ways)("over %s, with one backend busy and one frozen", async (_, restart) => {
    await using clients = new Clients()
    const before = Number(await ask(cluster.url, "SELECT count(*) FROM jobs"))
    const open = await clients.connect(cluster.url)
    await open.query("BEGIN")
    await open.query("INSERT INTO jobs DEFAULT VALUES")
    const frozen = await clients.connect(cluster.url, "frozen")
    await frozen.query("INSERT INTO jobs DEFAULT VALUES")
    cluster.pause(await pidOf(cluster, "frozen"))
    const busy = failureOf(open.query("SELECT pg_sleep(60)"))
    const pid = cluster.pid()
    await restart()
    expect(await busy).toBeInstanceOf(Error)
    expect(cluster.pid()).not.toBe(pid)
    expect(Number(await ask(cluster.url, "SELECT count(*) FROM jobs"))).toBe(before + 1)
  })
})

describe("a stopped cluster", () => {
  it("refuses connections until it is started", async () => {
    await cluster.stop("fast")
    expect(cluster.pid()).toBeUndefined()
    await expect(ask(cluster.url, "SELECT 1")).rejects.toMatchObject({ code: "ECONNREFUSED" })
    await cluster.stop("immediate")
    await cluster.start()
    await expect(cluster.start()).rejects.toThrow("is already running")
    expect(await ask(cluster.url, "SELECT 1")).toBe(1)
  })

  it("reports why it does not start", async () => {
    await expect(startCluster({ settings: { shared_buffers: "nonsense" } })).rejects.toThrow(
      'invalid value for parameter "shared_buffers"',
    )
  })
})

describe("settings", () => {
  it("reach the server, and fsync is off only by default", async () => {
    expect(await ask(cluster.url, "SHOW fsync")).toBe("on")
    expect(await ask(cluster.url, "SHOW max_connections")).toBe("10")
    await using other = await startCluster()
    expect(await ask(other.url, "SHOW fsync")).toBe("off")
    expect(await ask(other.url, "SHOW listen_addresses")).toBe("127.0.0.1")
    expect(await ask(other.adminUrl, "SHOW unix_socket_directories")).toBe("")
  })
})

describe("dispose", () => {
  it("leaves no process and no directory, even of a frozen backend", async () => {
    await using clients = new Clients()
    const own = await startCluster()
    await clients.connect(own.url)
    const pids = childrenOf(own.pid() ?? -1)
    expect(pids.length).toBeGreaterThan(1)
    own.pause((await own.backends())[0]?.pid ?? -1)
    await own.dispose()
    expect(isAnyRunning([...pids])).toBe(false)
    expect(existsSync(own.directory)).toBe(false)
  })
})
