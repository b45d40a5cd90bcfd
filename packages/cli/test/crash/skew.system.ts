import { globSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { until } from "@kiln/service-lab"
import { Lab, leaseMs, patience } from "./support/Lab.ts"
import { makeStores } from "./support/LabStore.ts"

/** Where Debian's package has it. LIBFAKETIME names one elsewhere. */
const library = process.env["LIBFAKETIME"] ?? globSync("/usr/lib/*/faketime/libfaketime.so.1")[0]

const perProcess = 3

// A machine without libfaketime has one clock for all: the name says so.
describe.skipIf(library === undefined)(
  `a process whose clock is wrong${library === undefined ? " (there is no libfaketime here)" : ""}`,
  patience,
  () => {
    const onPostgres = makeStores.filter(({ name }) => name === "Postgres")
    it.each(onPostgres.flatMap((place) => ["+1h", "-1h"].map((skew) => ({ ...place, skew }))))(
      "by $skew neither takes other processes' jobs nor loses its own, on $name",
      async ({ makeStore, skew }) => {
        await using lab = await Lab.open(makeStore)
        lab.hold("gate")
        const env = { KILN_CONCURRENCY: String(perProcess) }
        const right = await lab.start({ env })
        const wrong = await lab.start({
          // Leases are counted by a clock that no one sets, and that one is as it is.
          env: { ...env, LD_PRELOAD: library ?? "", FAKETIME: skew, FAKETIME_DONT_FAKE_MONOTONIC: "1" },
        })
        const said = Date.parse((await wrong.client.get("/livez")).headers.get("date") ?? "")
        expect(Math.abs(said - Date.now()), "its clock is wrong").toBeGreaterThan(3_000_000)

        const jobIds = await Promise.all(Array.from({ length: 2 * perProcess }, () => right.client.speak("gate@1")))
        const begun = await Promise.all(jobIds.map((id) => lab.attemptBegun(id, 1)))
        for (const { pid } of [right, wrong]) expect(begun.filter((call) => call.pid === pid)).toHaveLength(perProcess)
        // Not to wait for anything: leases would end meanwhile, and be taken, were they not extended in store time.
        await new Promise((resolve) => setTimeout(resolve, 3 * leaseMs))
        for (const job of await lab.jobs(jobIds)) expect(job).toMatchObject({ held: true, attempts: 1, lostWorkers: 0 })

        const theirs = begun.filter((call) => call.pid === wrong.pid).map(({ jobId }) => jobId)
        await wrong.crash()
        const diedAt = Date.now()
        lab.letGo("gate")
        const taken = await Promise.all(theirs.map((id) => lab.attemptBegun(id, 2)))
        expect(Math.max(...taken.map(({ at }) => at)) - diedAt).toBeLessThanOrEqual(leaseMs + 1_000)
        const rows = await until(async () => {
          const { jobs } = await lab.store.rows()
          return jobs.every(({ status }) => status === "done") ? jobs : undefined
        })
        for (const { attempts, id, lostWorkers } of rows)
          expect([attempts, lostWorkers]).toEqual(theirs.includes(id) ? [2, 1] : [1, 0])
      },
    )
  },
)
