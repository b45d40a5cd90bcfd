import { setTimeout as sleep } from "node:timers/promises"
import { describe, expect, it } from "vitest"
import { Installation, type InstallationOptions, type StoreName } from "./support/Installation.ts"
import { type Failure, Load, percentile } from "./support/Load.ts"
import { findProgram, Nginx } from "./support/Nginx.ts"

/** A hundred restarts behind nginx with the configuration of `deploy/`, while callers send 200 requests a second. */

const nginx = findProgram("nginx")
const restarts = 100
const perSecond = 200
const concurrent = 64
const limit = { timeout: 3_600_000 }

const withNginx = async (
  store: StoreName,
  options: InstallationOptions,
  work: (installation: Installation, load: Load, front: Nginx) => Promise<void>,
) => {
  let started: Nginx | undefined
  await using installation = await Installation.start(store, options, async (ports) => {
    started = await new Nginx(nginx ?? "", ports).listening()
    return started.url
  })
  if (started === undefined) throw new Error("nginx was not started")
  await using front = started
  await using load = new Load({ url: front.url, key: installation.key, ca: front.ca })
  await load.prepare()
  load.begin(perSecond, concurrent)
  const begun = performance.now()
  await work(installation, load, front)
  await load.finish()
  const seconds = (performance.now() - begun) / 1_000
  const latency = [0.5, 0.99, 1].map((share) => Math.round(percentile(load.latencies, share)))
  console.info(
    `figure: ${store}, ${JSON.stringify(options)}: ${load.sent} requests in ${Math.round(seconds)} s, ` +
      `${Math.round(load.sent / seconds)}/s; median, 99th percentile and maximum ${latency.join(", ")} ms; ${load.failures.length} failed`,
  )
}

const byKind = (failures: ReadonlyArray<Failure>): string =>
  JSON.stringify(
    Object.fromEntries([...Map.groupBy(failures, ({ kind }) => kind)].map(([kind, all]) => [kind, all.length])),
  )

// Needs nginx, which is not installed everywhere.
describe.skipIf(nginx === undefined)("behind nginx", () => {
  it.each([
    { store: "Postgres", heldSockets: true },
    { store: "SQLite", heldSockets: true },
    { store: "Postgres", heldSockets: false },
  ] as const)(`${restarts} restarts fail no request: %o`, limit, async ({ heldSockets, store }) => {
    await withNginx(store, { heldSockets, stopDelay: "1s" }, async (installation, load, front) => {
      for (let n = 0; n < restarts; n++) {
        const index = n % 2 === 0 ? 0 : 1
        const api = installation.api(index)
        api.kill("SIGTERM")
        expect((await api.ended()).exit).toBe(0)
        await installation.start(index)
        expect(load.failures, front.errors()).toEqual([])
      }
    })
  })

  it("a killed process costs only what nginx cannot repeat", limit, async () => {
    const kills = 20
    await withNginx("Postgres", { heldSockets: false, stopDelay: "0" }, async (installation, load) => {
      for (let n = 0; n < kills; n++) {
        const index = n % 2 === 0 ? 0 : 1
        await sleep(500)
        await installation.api(index).crash()
        await installation.start(index)
      }
      await load.finish()
      console.info(`figure: ${kills} times kill -9: failed ${byKind(load.failures)} of ${load.sent}`)
      // A file in transfer, in either direction.
      expect(load.failures.filter(({ kind }) => kind !== "upload" && kind !== "download")).toEqual([])
      expect(load.failures.length).toBeLessThan(kills * 3)
    })
  })
})
