import { describe, expect, it } from "@effect/vitest"
import { Effect, ManagedRuntime } from "effect"
import { JobStore, type NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { freshDatabase, startCluster } from "@kiln/postgres-lab"
import { postgresMigrations, PostgresStores } from "../src/index.ts"
import { fillStore } from "./support/fillStore.ts"

const { newJob } = fixtures
const rounds = 300

/** Two processes that create jobs of one project. */
const creators = async (server: string, backlog: number) => {
  const database = await freshDatabase({ server })
  await Effect.runPromise(postgresMigrations.apply({ url: database.url }))
  await fillStore(database.url, { finished: 0, backlog })
  const open = () => ManagedRuntime.make(PostgresStores.layer({ url: database.url, poolSize: 3, notifications: false }))
  const processes = [open(), open()]
  let numbers = 10_000_000
  const create = async (index: number, size: number, queueCap: number): Promise<void> => {
    const jobs = Array.from({ length: size }, (): NewJob => newJob((numbers += 1), { queueCap }))
    const created = await processes[index]?.runPromise(Effect.flatMap(JobStore, (store) => store.createJobs(jobs)))
    expect(created?.map(({ _tag }) => _tag)).toEqual(jobs.map(() => "Created"))
  }
  return {
    create,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(processes.map((each) => each.dispose()))
      await database.dispose()
    },
  }
}

const lowerQuartile = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[values.length >> 2] ?? 0

describe("creating under a queue cap", { timeout: 3_600_000 }, () => {
  it.each([1_000, 100_000, 1_000_000])("costs as much as without one, with %d waiting", async (backlog) => {
    await using cluster = await startCluster({ fsync: true, settings: { synchronous_commit: "on" } })
    await using store = await creators(cluster.adminUrl, backlog)
    for (const [size, atOnce] of [
      [1, 1],
      [100, 1],
      [1, 8],
    ] as const) {
      const times: Record<"capped" | "free", Array<number>> = { capped: [], free: [] }
      for (let round = 0; round < rounds; round += 1)
        for (const [name, cap] of [
          ["capped", 2_000_000],
          ["free", 0],
        ] as const) {
          const startedAt = performance.now()
          await Promise.all(Array.from({ length: atOnce }, (_, index) => store.create(index % 2, size, cap)))
          if (round >= 20) times[name].push(performance.now() - startedAt)
        }
      const [capped, free] = [lowerQuartile(times.capped), lowerQuartile(times.free)]
      const what = `${atOnce} × ${size} jobs with ${backlog} waiting`
      process.stdout.write(
        `figure: creating ${what} on Postgres under a queue cap: ${(capped / free).toFixed(2)} times (${capped.toFixed(2)} ms against ${free.toFixed(2)})\n`,
      )
      expect(capped / free).toBeLessThan(1.15)
    }
  })
})
