import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind, type StoreAdapter } from "@kiln/core"
import { freshDatabase, startCluster } from "@kiln/postgres-lab"
import { memoryBlobs } from "@kiln/testing"
import { expect, it } from "vitest"
import { z } from "zod"

/** Finished rows that retention removes while jobs run. */
const rows = Number(process.env["KILN_LONG_ROWS"] ?? 1_000_000)
const phaseMs = 10_000
/** Milliseconds between two submissions: about a fifth of what a machine can do. */
const everyMs = 4

const noop = jobKind({ name: "noop", request: z.object({ n: z.number() }), run: () => Promise.resolve({ output: {} }) })

const open = (store: StoreAdapter, jobRetentionMs: number, concurrency: number) =>
  createEngine({
    store,
    blobs: memoryBlobs(),
    kinds: [noop],
    log: false,
    settings: {
      concurrency,
      queueCap: 0,
      limits: { perProject: 0 },
      dataRetentionMs: 0,
      jobRetentionMs,
      pruneIntervalMs: 1_000,
      idlePruneIntervalMs: 1_000,
    },
  })

type Engine = Awaited<ReturnType<typeof open>>

const fill = async (store: StoreAdapter): Promise<void> => {
  const engine = await open(store, 0, 500)
  let done = 0
  const all = Promise.withResolvers<void>()
  using _ = engine.on("completed", () => {
    done += 1
    if (done === rows) all.resolve()
  })
  for (let n = 0; n < rows; n += 1_000)
    await engine.submitMany(
      "noop",
      Array.from({ length: 1_000 }, (_, at) => ({ request: { n: n + at } })),
    )
  await all.promise
  await engine.stop()
}

const quantile = (values: ReadonlyArray<number>, share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? 0

/** Submits at a steady rate. Returns the p99 of accepting a job, and of the time until its attempt begins. */
const latencies = async (engine: Pick<Engine, "submit" | "on">) => {
  const submitted = new Map<string, number>()
  const begun = new Map<string, number>()
  const acks: Array<number> = []
  using _ = engine.on("active", ({ jobId }) => void begun.set(jobId, performance.now()))
  const calls: Array<Promise<unknown>> = []
  const startedAt = performance.now()
  for (let n = 0; performance.now() - startedAt < phaseMs; n += 1) {
    const at = startedAt + n * everyMs
    if (at > performance.now()) await pause(Math.max(0, at - performance.now()))
    calls.push(
      (async () => {
        const { id } = await engine.submit("noop", { n })
        // From when it was due: a blocked event loop delays submissions too.
        acks.push(performance.now() - at)
        submitted.set(id, at)
      })(),
    )
  }
  await Promise.all(calls)
  await pause(500)
  const starts = [...submitted].map(([id, at]) => (begun.get(id) ?? Infinity) - at)
  return { ack: quantile(acks, 0.99), start: quantile(starts, 0.99), ackMid: quantile(acks, 0.5) }
}

const compare = async (name: string, store: () => StoreAdapter) => {
  await fill(store())
  const calmly = async () => {
    const engine = await open(store(), 0, 32)
    await pause(1_000)
    const measured = await latencies(engine)
    await engine.stop()
    return measured
  }
  const before = await calmly()
  const engine = await open(store(), 1_000, 32)
  await pause(1_500)
  const left = async () =>
    (await engine.operator.count({ finishedWithinMs: 1e9 })).reduce((sum, { count }) => sum + count, 0)
  const atFirst = await left()
  const swept = await latencies(engine)
  const gone = atFirst - (await left())
  await engine.stop()
  const after = await calmly()
  const calm = { ack: Math.max(before.ack, after.ack), start: Math.max(before.start, after.start) }
  process.stdout.write(
    `figure: ${name}, p99 while retention removes ${(gone / phaseMs).toFixed(1)} rows a millisecond (${atFirst} at first): ` +
      `accepting ${swept.ack.toFixed(1)} ms against ${before.ack.toFixed(1)} and ${after.ack.toFixed(1)}, ` +
      `starting ${swept.start.toFixed(1)} ms against ${before.start.toFixed(1)} and ${after.start.toFixed(1)}\n`,
  )
  return { gone, ack: swept.ack / calm.ack, start: swept.start / calm.start }
}

it("jobs are accepted and start in time while retention sweeps SQLite", { timeout: 3_600_000 }, async () => {
  const directory = await mkdtemp(join(tmpdir(), "kiln-sweeps-"))
  try {
    const { ack, gone, start } = await compare("SQLite", () => sqliteStore({ path: join(directory, "kiln.db") }))
    expect(gone).toBeGreaterThan(0)
    expect(Math.max(ack, start)).toBeLessThan(1.5)
  } finally {
    await rm(directory, { recursive: true })
  }
})

it("jobs are accepted and start in time while retention sweeps Postgres", { timeout: 3_600_000 }, async () => {
  await using cluster = await startCluster({ fsync: true, settings: { synchronous_commit: "on" } })
  await using database = await freshDatabase({ server: cluster.adminUrl })
  const { ack, gone, start } = await compare("Postgres", () => postgresStore({ url: database.url }))
  expect(gone).toBeGreaterThan(0)
  expect(Math.max(ack, start)).toBeLessThan(1.5)
})
