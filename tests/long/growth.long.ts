import { mkdir, mkdtemp, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine, jobKind, type StoreAdapter } from "@kiln/core"
import { freshDatabase, startCluster } from "@kiln/postgres-lab"
import { memoryBlobs } from "@kiln/testing"
import Database from "better-sqlite3"
import { Client } from "pg"
import { expect, it } from "vitest"
import { z } from "zod"

/** Finished jobs beside which jobs are created, claimed, polled and listed. */
const rows = Number(process.env["KILN_LONG_ROWS"] ?? 10_000_000)
const rounds = 25
/** How much longer an operation may take beside them. */
const most = 1.2

const noop = jobKind({ name: "noop", request: z.object({ n: z.number() }), run: () => Promise.resolve({ output: {} }) })

const open = (store: StoreAdapter) =>
  createEngine({
    store,
    blobs: memoryBlobs(),
    kinds: [noop],
    log: false,
    autoStart: false,
    settings: { concurrency: 500, queueCap: 0, limits: { perProject: 0 }, dataRetentionMs: 0, jobRetentionMs: 0 },
  })

type Engine = Awaited<ReturnType<typeof open>>
type Measured = Pick<Engine, "submit" | "submitMany" | "get" | "drain" | "operator">

const requests = (count: number) => Array.from({ length: count }, (_, n) => ({ request: { n } }))

/** Creates and runs jobs as a program does. Returns the id of one of them. */
const fill = async (engine: Measured, count: number): Promise<string> => {
  const { id } = await engine.submit("noop", { n: 0 })
  for (let left = count; left > 0; left -= 100_000) {
    for (let some = 0; some < Math.min(left, 100_000); some += 1_000) await engine.submitMany("noop", requests(1_000))
    await engine.drain({ maxMs: 3_600_000 })
  }
  return id
}

/** Milliseconds of each operation. */
const operations = ["create", "claim and end", "poll", "list"] as const
type Operation = (typeof operations)[number]

const timed = async (count: number, work: () => Promise<unknown>): Promise<number> => {
  const from = performance.now()
  for (let nth = 0; nth < count; nth += 1) await work()
  return (performance.now() - from) / count
}

const once = async (engine: Measured, finished: string): Promise<Record<Operation, number>> => {
  const create = await timed(100, () => engine.submit("noop", { n: 1 }))
  await engine.submitMany("noop", requests(400))
  return {
    create,
    "claim and end": await timed(1, () => engine.drain({ maxMs: 60_000 })),
    poll: await timed(200, () => engine.get({ id: finished, kind: "noop" })),
    list: await timed(40, () => engine.operator.list({ limit: 50 })),
  }
}

const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

/** Measures both in turn, after `settled`. Returns how many times longer each operation takes beside finished jobs. */
const compare = async (
  name: string,
  empty: Measured,
  full: Measured,
  settled: () => Promise<void> = () => Promise.resolve(),
): Promise<ReadonlyArray<number>> => {
  const engines = { empty, full }
  const few = await fill(empty, 1_000)
  const filledFrom = performance.now()
  const one = await fill(full, rows)
  const minutes = (performance.now() - filledFrom) / 60_000
  await settled()
  const times = { empty: [] as Array<Record<Operation, number>>, full: [] as Array<Record<Operation, number>> }
  for (let round = 0; round < rounds; round += 1)
    for (const which of round % 2 === 0 ? (["empty", "full"] as const) : (["full", "empty"] as const)) {
      const measured = await once(engines[which], which === "empty" ? few : one)
      // The first rounds read what is not in memory yet.
      if (round >= 3) times[which].push(measured)
    }
  const of = (which: "empty" | "full", operation: Operation) => median(times[which].map((each) => each[operation]))
  const ratios = operations.map((operation) => of("full", operation) / of("empty", operation))
  process.stdout.write(
    `figure: ${name}, beside ${rows.toLocaleString("en")} finished jobs (made in ${minutes.toFixed(1)} min): ` +
      `${operations.map((operation, at) => `${operation} ${ratios[at]?.toFixed(2)} × (${of("full", operation).toFixed(2)} ms)`).join(", ")}\n`,
  )
  return ratios
}

const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`

it("a SQLite file with many finished jobs is as fast as an empty one", { timeout: 7_200_000 }, async () => {
  const directory = await mkdtemp(join(tmpdir(), "kiln-growth-"))
  try {
    const at = async (name: string) => {
      await mkdir(join(directory, name))
      return join(directory, name, "kiln.db")
    }
    const path = await at("full")
    const empty = await open(sqliteStore({ path: await at("empty") }))
    const full = await open(sqliteStore({ path }))
    const ratios = await compare("SQLite", empty, full)
    await Promise.all([empty.stop(), full.stop()])
    const database = new Database(path)
    const sizes = database
      .prepare("SELECT name, sum(pgsize) AS bytes FROM dbstat GROUP BY name ORDER BY bytes DESC LIMIT 6")
      .all([]) as ReadonlyArray<{ readonly name: string; readonly bytes: number }>
    database.close()
    const parts = sizes.map(({ bytes, name }) => `${name} ${mb(bytes)}`).join(", ")
    process.stdout.write(`figure: SQLite, the file ${mb((await stat(path)).size)}: ${parts}\n`)
    expect(Math.max(...ratios)).toBeLessThan(most)
  } finally {
    await rm(directory, { recursive: true })
  }
})

it("a Postgres database with many finished jobs is as fast as an empty one", { timeout: 7_200_000 }, async () => {
  await using cluster = await startCluster({ fsync: true, settings: { synchronous_commit: "on" } })
  await using filled = await freshDatabase({ server: cluster.adminUrl })
  await using other = await freshDatabase({ server: cluster.adminUrl })
  const empty = await open(postgresStore({ url: other.url }))
  const full = await open(postgresStore({ url: filled.url }))
  const client = new Client({ connectionString: filled.url })
  await client.connect()
  const deadRows = async () => {
    const sql =
      "SELECT n_dead_tup::int AS dead FROM pg_stat_user_tables WHERE schemaname = 'kiln' AND relname = 'queue'"
    return (await client.query<{ readonly dead: number }>(sql)).rows[0]?.dead ?? Infinity
  }
  const ratios = await compare("Postgres", empty, full, async () => {
    const [from, dead] = [performance.now(), await deadRows()]
    // Autovacuum looks once a minute. Until then, scans of the queue pass the places that jobs have left.
    while ((await deadRows()) > 5_000) await pause(1_000)
    const seconds = ((performance.now() - from) / 1_000).toFixed(0)
    process.stdout.write(`figure: Postgres, autovacuum removed ${dead} dead rows of the queue after ${seconds} s\n`)
  })
  await Promise.all([empty.stop(), full.stop()])
  const { rows: tables } = await client.query<{ readonly line: string }>(`
    SELECT format('%s %s MB with %s MB of indexes, %s dead rows after %s vacuums', relname, pg_table_size(relid) / 1000000,
      pg_indexes_size(relid) / 1000000, n_dead_tup, autovacuum_count) AS line
    FROM pg_stat_user_tables WHERE schemaname = 'kiln' ORDER BY pg_total_relation_size(relid) DESC LIMIT 4`)
  await client.end()
  process.stdout.write(`figure: Postgres: ${tables.map(({ line }) => line).join("; ")}\n`)
  expect(Math.max(...ratios)).toBeLessThan(most)
})
