import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import type { NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { openDatabase } from "../src/openDatabase.ts"
import { storesOf } from "./support/arrangeJobs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { newJob } = fixtures
const rounds = 500

/** Processor time of this process: the disk and others on the machine do not count. */
const processorMs = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1_000
}

const lowerQuartile = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[values.length >> 2] ?? 0

describe("creating under a queue cap", { timeout: 3_600_000 }, () => {
  it.live.each([1_000, 1_000_000])("costs as much as without one, with %d waiting", (backlog) =>
    Effect.gen(function* () {
      const { jobs: store } = storesOf(yield* openDatabase({ path: yield* temporaryFile }))
      let numbers = 0
      const some = (size: number, queueCap: number): ReadonlyArray<NewJob> =>
        Array.from({ length: size }, () => newJob((numbers += 1), { queueCap }))
      for (let made = 0; made < backlog; made += 1_000) yield* store.createJobs(some(1_000, 0))
      for (const size of [1, 100]) {
        const times: Record<"capped" | "free", Array<number>> = { capped: [], free: [] }
        for (let round = 0; round < rounds; round += 1)
          for (const [name, cap] of [
            ["capped", 2_000_000],
            ["free", 0],
          ] as const) {
            const jobs = some(size, cap)
            const startedAt = processorMs()
            const created = yield* store.createJobs(jobs)
            if (round >= 20) times[name].push(processorMs() - startedAt)
            expect(created.every(({ _tag }) => _tag === "Created")).toBe(true)
          }
        const [capped, free] = [lowerQuartile(times.capped), lowerQuartile(times.free)]
        process.stdout.write(
          `figure: creating ${size} jobs with ${backlog} waiting on SQLite under a queue cap: ${(capped / free).toFixed(2)} times (${capped.toFixed(3)} ms against ${free.toFixed(3)})\n`,
        )
        expect(capped / free).toBeLessThan(1.15)
      }
    }),
  )
})
