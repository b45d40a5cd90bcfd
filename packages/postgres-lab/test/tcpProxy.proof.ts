import { describe, expect, it } from "vitest"
import { proxied } from "./support/proxied.ts"

describe("tcpProxy", () => {
  it("drops the response to any statement, not only to COMMIT", async () => {
    await using net = await proxied()
    const client = await net.connect()
    const dropped = net.proxy.dropAnswer(/^insert/i)
    await expect(client.query("INSERT INTO jobs VALUES ($1)", [1])).rejects.toThrow("Connection terminated")
    await dropped
    expect(await net.jobs()).toBe(1)
  })

  it("counts messages by kind and statements by text", async () => {
    await using net = await proxied()
    const client = await net.connect()
    net.proxy.resetCounts()
    await client.query("SELECT 1")
    for (const id of [1, 2, 3]) {
      await client.query({ name: "insert", text: "INSERT INTO jobs VALUES ($1)", values: [id] })
    }
    expect(Object.fromEntries(net.proxy.statements())).toEqual({ "SELECT 1": 1, "INSERT INTO jobs VALUES ($1)": 3 })
    expect(Object.fromEntries(net.proxy.messages())).toMatchObject({ Query: 1, Parse: 1, Bind: 3, Execute: 3, Sync: 3 })
  })

  it("counts round trips and transactions", async () => {
    await using net = await proxied()
    const client = await net.connect({ pipeline: true })
    net.proxy.resetCounts()
    for (const text of ["BEGIN", "INSERT INTO jobs VALUES (1)", "COMMIT"]) await client.query(text)
    expect([net.proxy.flights(), net.proxy.transactions()]).toEqual([3, 1])

    net.proxy.resetCounts()
    // Sent at once, whatever packets they come in.
    net.proxy.delay(50)
    await Promise.all([2, 3, 4].map((id) => client.query({ text: "INSERT INTO jobs VALUES ($1)", values: [id] })))
    expect([net.proxy.flights(), net.proxy.transactions()]).toEqual([1, 3])
  })

  it("carries responses and parameters larger than a packet", async () => {
    await using net = await proxied()
    const client = await net.connect({ pipeline: true })
    const text = "x".repeat(3_000_000)
    const { rows } = await client.query<{ echo: string }>("SELECT $1::text || 'y' AS echo", [text])
    expect(rows[0]?.echo === `${text}y`).toBe(true)
  })

  it("delays both directions, in order", async () => {
    await using net = await proxied()
    const client = await net.connect({ pipeline: true })
    net.proxy.delay(50)
    const began = performance.now()
    const answers = await Promise.all([1, 2, 3].map((n) => client.query(`SELECT ${n} AS n`)))
    expect(performance.now() - began).toBeGreaterThanOrEqual(95)
    expect(answers.map(({ rows }) => rows[0])).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
  })

  it("holds everything as a black hole, and delivers it afterwards", async () => {
    await using net = await proxied()
    const client = await net.connect()
    net.proxy.blackHole()
    await expect(net.connect({ connectionTimeoutMillis: 200 })).rejects.toThrow("timeout")
    const late = client.query("SELECT 1 AS n")
    expect(await Promise.race([late, net.jobs()])).toBe(0)
    await net.proxy.pass()
    expect((await late).rows).toEqual([{ n: 1 }])
  })

  it("refuses new connections and does not affect open ones", async () => {
    await using net = await proxied()
    const client = await net.connect()
    net.proxy.refuse()
    net.proxy.refuse()
    await expect(net.connect()).rejects.toMatchObject({ code: "ECONNREFUSED" })
    await client.query("SELECT 1")
    await net.proxy.pass()
    await net.connect()
  })

  it("closes all connections at once", async () => {
    await using net = await proxied()
    const all = await Promise.all([net.connect(), net.connect()])
    const asked = Promise.allSettled(all.map((client) => client.query("SELECT pg_sleep(30)")))
    net.proxy.cutAll()
    expect((await asked).map(({ status }) => status)).toEqual(["rejected", "rejected"])
    await net.connect()
  })

  it("reports a fault that was never triggered", async () => {
    await using net = await proxied()
    const never = net.proxy.cutBefore()
    await net.proxy.close()
    await expect(never).rejects.toThrow("never cut before")
  })
})
