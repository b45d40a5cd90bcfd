import { expect, it } from "vitest"
import { type ApiProcess, Fleet, patience } from "./support/Fleet.ts"

/** How long a job waits that meets an idle worker in another process. */

/** Milliseconds from each job's creation, as the database has it, to its provider, one job after the other. */
const waits = async (fleet: Fleet, { live }: ApiProcess, count: number): Promise<ReadonlyArray<number>> => {
  const all: Array<number> = []
  for (let n = 0; n < count; n++) {
    const id = await live.speak("x")
    expect((await live.finished(id)).status).toBe("done")
    const begun = fleet.calls().find(({ jobId }) => jobId === id)
    all.push((begun?.at ?? Number.NaN) - (await fleet.job(id)).createdAt)
  }
  return all.toSorted((a, b) => a - b)
}

it("a notification starts a job of another process immediately", patience, async () => {
  await using fleet = await Fleet.open()
  const [api] = await Promise.all([fleet.api(), fleet.worker()])
  const sorted = await waits(fleet, api, 31)
  const median = sorted[15]
  console.info(`created to begun, across processes: median ${median} ms, slowest ${sorted.at(-1)} ms`)
  // Others may be at work on this machine. A worker that was not told would have looked after 500 ms on average, or later.
  expect(median).toBeLessThan(150)
})

it("without notifications a worker finds it by polling once a second", patience, async () => {
  await using fleet = await Fleet.open()
  const env = { KILN_DATABASE_NOTIFICATIONS: "off" }
  const [api] = await Promise.all([fleet.api({ env }), fleet.worker({ env })])
  const sorted = await waits(fleet, api, 5)
  // It polls: with notifications, a worker would have started all of them immediately.
  expect(sorted.at(-1)).toBeGreaterThan(50)
  expect(sorted.at(-1)).toBeLessThan(5_000)
})
