import { postgresStore } from "@kiln/adapter-postgres"
import { createEngine, jobKind } from "@kiln/core"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { memoryBlobs } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { statementsOf, untilQuiet } from "./statementsOf.ts"

const free = jobKind({ name: "free", request: z.object({ n: z.number() }), run: () => Promise.resolve({ output: {} }) })

describe("statements of readers on Postgres", () => {
  it("readers of one turn share one, and those who wait share those about jobs that have ended", async () => {
    await using database = await freshDatabase()
    await using proxy = await tcpProxy(database.url)
    const options = {
      blobs: memoryBlobs(),
      kinds: [free],
      log: false,
      settings: { sweepIntervalMs: 3_600_000 },
    } as const
    const engine = await createEngine({ ...options, store: postgresStore({ url: proxy.url }), worker: false })
    const worker = await createEngine({ ...options, store: postgresStore({ url: database.url }), autoStart: false })
    try {
      const jobs = await Promise.all(Array.from({ length: 64 }, (_, n) => engine.submit("free", { n })))
      const readAll = async () => {
        const read = await Promise.all(jobs.map((job) => engine.get(job)))
        expect(read.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
      }
      const [first] = jobs
      const readOne = () => engine.get(first?.id ?? "")
      await readAll()
      await untilQuiet(proxy)
      expect(
        await statementsOf(
          proxy,
          Array.from({ length: 9 }, () => readOne),
        ),
      ).toHaveLength(1)
      expect(
        await statementsOf(
          proxy,
          Array.from({ length: 9 }, () => readAll),
        ),
      ).toHaveLength(1)
      proxy.resetCounts()
      const waiting = Promise.all(jobs.map((job) => engine.wait(job)))
      await worker.start()
      await waiting
      const reads = [...proxy.statements().entries()].filter(([text]) => text.includes(`"kiln"."jobs"`))
      // The store announces which jobs have ended; what they returned is read for all that are known by then.
      expect(reads.reduce((sum, [, times]) => sum + times, 0)).toBeLessThan(jobs.length)
    } finally {
      await engine.stop({ drainMs: 0 })
      await worker.stop()
    }
  })
})
