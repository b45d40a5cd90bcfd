import { createEngine, jobKind } from "@kiln/core"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { freshDatabase } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import { memoryBlobs } from "@kiln/testing"
import { join } from "node:path"
import { setTimeout as sleepFor } from "node:timers/promises"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { expect, it } from "vitest"
import { z } from "zod"

const count = Number(process.env["PARKED"] ?? 100_000)
/** Longer than a minute, so that everything a process does each minute is in it. */
const idleMs = 70_000
const signaled = 1_000
const slots = 200

/** Collects the garbage of 100,000 submissions, which otherwise happens at some time while the process is idle. */
const collectGarbage = (): void => {
  setFlagsFromString("--expose-gc")
  ;(runInNewContext("gc") as () => void)()
}

it.each(["sqlite", "postgres"])(
  "parked jobs cost an idle process nothing, and continue in order, on %s",
  async (store) => {
    using directory = temporaryDirectory()
    await using database = store === "postgres" ? await freshDatabase() : null
    const woken: Array<number> = []
    const waiting = jobKind({
      name: "waiting",
      request: z.object({ n: z.number() }),
      run: async ({ request: { n }, waitFor }) => {
        const result = await waitFor("go", { timeout: "30 days" })
        if (!result.timedOut) woken.push(n)
        return { output: {} }
      },
    })
    await using engine = await createEngine({
      store:
        database === null
          ? sqliteStore({ path: join(directory.path, "kiln.db") })
          : postgresStore({ url: database.url }),
      blobs: memoryBlobs(),
      kinds: [waiting],
      settings: { queueCap: 0, concurrency: slots, limits: { perProject: 0 } },
      log: false,
    })
    const begunAt = performance.now()
    const ids: Array<string> = []
    for (let from = 0; from < count; from += 10_000) {
      const requests = Array.from({ length: Math.min(10_000, count - from) }, (_, n) => ({ request: { n: from + n } }))
      for (const { job } of await engine.submitMany("waiting", requests)) ids.push(job?.id ?? "")
    }
    const last = ids.at(-1) ?? ""
    await expect
      .poll(async () => (await engine.operator.waitingFor(last)).map(({ reason }) => reason), {
        timeout: 1_200_000,
        interval: 1_000,
      })
      .toEqual(["signal"])
    const parkedMs = performance.now() - begunAt
    await sleepFor(5_000)
    collectGarbage()
    const before = process.cpuUsage()
    await sleepFor(idleMs)
    const { system, user } = process.cpuUsage(before)
    const share = (system + user) / 1_000 / idleMs
    const picked = ids.filter((_, n) => n % Math.floor(count / signaled) === 0).slice(0, signaled)
    const sentAt = performance.now()
    for (const id of picked) await engine.signal(id, "go")
    await expect.poll(() => woken.length, { timeout: 120_000 }).toBe(picked.length)
    const wokenMs = performance.now() - sentAt
    console.log(
      `${store}: ${count} parked in ${Math.round(parkedMs / 1_000)} s; idle at ${(share * 100).toFixed(2)} % of a core; ${picked.length} signals and continuations in ${Math.round(wokenMs)} ms`,
    )
    expect(share).toBeLessThan(0.01)
    // They run beside each other, so each may be overtaken by those of the other slots.
    const ordered = woken.toSorted((a, b) => a - b)
    for (const [at, n] of woken.entries()) expect(Math.abs(ordered.indexOf(n) - at)).toBeLessThan(slots)
  },
  1_500_000,
)
