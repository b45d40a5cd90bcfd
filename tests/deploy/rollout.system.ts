import { setTimeout as sleep } from "node:timers/promises"
import { describe, expect, it } from "vitest"
import { HealthProxy } from "./support/HealthProxy.ts"
import { Installation } from "./support/Installation.ts"
import { Load } from "./support/Load.ts"

/** A few restarts behind a load balancer that checks readiness. The long tier has a hundred of them behind nginx. */

const restarts = 2

describe("a rolling restart of two API processes", () => {
  it("fails no request behind a load balancer that repeats none", async () => {
    let proxy: HealthProxy | undefined
    // As long as the test needs: the second signal ends it.
    await using installation = await Installation.start(
      "Postgres",
      { heldSockets: false, stopDelay: "10m" },
      async (ports) => {
        proxy = await HealthProxy.start(ports)
        return proxy.url
      },
    )
    await using front = proxy ?? (await HealthProxy.start([]))
    for (const port of installation.ports) await front.notices(port, true)
    await using load = new Load({ url: front.url, key: installation.key })
    await load.prepare()
    load.begin(100, 8)
    for (let n = 0; n < restarts; n++) {
      const index = n % 2 === 0 ? 0 : 1
      const api = installation.api(index)
      await sleep(250)
      api.kill("SIGTERM")
      await front.notices(installation.ports[index], false)
      // The load balancer knows, so nothing has to wait any longer.
      api.kill("SIGTERM")
      expect((await api.ended()).exit).toBe(0)
      await installation.start(index)
      await front.notices(installation.ports[index], true)
    }
    await load.finish()
    expect(load.failures).toEqual([])
    expect(load.sent).toBeGreaterThan(100)
  })
})

describe("a restart of one API process whose socket a supervisor holds", () => {
  it("fails no request: connections wait for the next process", async () => {
    const urlOf = ([port]: readonly [number, number]) => `http://127.0.0.1:${port}`
    await using installation = await Installation.start("SQLite", { heldSockets: true, stopDelay: "0" }, urlOf)
    await using load = new Load({ url: urlOf(installation.ports), key: installation.key, keepAlive: false })
    await load.prepare()
    load.begin(50, 4)
    for (let n = 0; n < 2; n++) {
      await sleep(250)
      const api = installation.api(0)
      api.kill("SIGTERM")
      expect((await api.ended()).exit).toBe(0)
      await installation.start(0)
    }
    await load.finish()
    expect(load.failures).toEqual([])
  })
})
