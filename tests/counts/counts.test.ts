import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import type { StoreAdapter } from "@kiln/core"
import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import { describe, expect, it } from "vitest"
import { countSqlite } from "./countSqlite.ts"
import {
  createBy32,
  createOneByOne,
  drain,
  type Engine,
  fibersMade,
  jobs,
  openCounted,
  startOneByOne,
} from "./workloads.ts"

/**
 * Limits for a hundred jobs. Counts are the same on a fast and on a slow machine, so a change that makes every job more
 * expensive fails here: one more statement a job is a hundred more. Lower a limit when its count has fallen; raise one only with
 * a reason. They leave room for what a process does by the clock, which on a busy machine meets more often, and for callers
 * that meet in more batches.
 */
const limits = {
  sqlite: {
    "1 caller": { statements: 180, commits: 130, pages: 650, fibers: 150 },
    "32 callers": { statements: 130, commits: 4, pages: 44, fibers: 8 },
    // The completions of the last jobs ask for more in the same transactions.
    drain: { statements: 62, commits: 3, pages: 44, fibers: 143 },
  },
  postgres: {
    "1 caller": { statements: 180, flights: 180, transactions: 180, fibers: 180 },
    "32 callers": { statements: 24, flights: 24, transactions: 24, fibers: 26 },
    drain: { statements: 40, flights: 32, transactions: 30, fibers: 170 },
  },
} as const

type Counts = Readonly<Record<string, number>>

/**
 * Returns the least of three measurements. Background work of the process and of the engine, which goes by the clock, only ever
 * adds to a count, and more so on a busy machine.
 */
const leastOf = async (measure: () => Promise<Counts>): Promise<Counts> => {
  const rounds = [await measure(), await measure(), await measure()]
  const names = Object.keys(rounds[0] ?? {})
  return Object.fromEntries(names.map((name) => [name, Math.min(...rounds.map((counts) => counts[name] ?? Infinity))]))
}

const expectWithin = (counted: Counts, limit: Counts): void => {
  const over = Object.entries(counted).filter(([name, count]) => count > (limit[name] ?? 0))
  expect(over, `counted ${JSON.stringify(counted)}, at most ${JSON.stringify(limit)}`).toEqual([])
}

const workloads: Readonly<
  Record<"1 caller" | "32 callers" | "drain", (engine: Engine, begin: () => void) => Promise<void>>
> = {
  "1 caller": (engine, begin) => {
    begin()
    return createOneByOne(engine)
  },
  "32 callers": (engine, begin) => {
    begin()
    return createBy32(engine)
  },
  drain,
}
const names = ["1 caller", "32 callers", "drain"] as const

/** Opens an engine, submits one job so that everything is prepared, and stops it at the end. */
const withEngine = async (store: StoreAdapter, use: (engine: Engine) => Promise<void>): Promise<void> => {
  const engine = await openCounted(store)
  try {
    await engine.submit("noop", {})
    await use(engine)
  } finally {
    await engine.stop({ drainMs: 0 })
  }
}

const countOnSqlite = async (name: (typeof names)[number]): Promise<Counts> => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-counts-"))
  const path = join(directory, "kiln.db")
  let counted: Counts = {}
  try {
    await withEngine(sqliteStore({ path }), async (engine) => {
      using stack = new DisposableStack()
      let counter: ReturnType<typeof countSqlite> | undefined
      let fibers = 0
      await workloads[name](engine, () => {
        counter = stack.use(countSqlite(path))
        fibers = fibersMade()
      })
      counted = { ...counter?.counts(), fibers: fibersMade() - fibers - 1 }
    })
  } finally {
    rmSync(directory, { recursive: true })
  }
  return counted
}

const countOnPostgres = async (name: (typeof names)[number]): Promise<Counts> => {
  await using database = await freshDatabase()
  await using proxy = await tcpProxy(database.url)
  let counted: Counts = {}
  await withEngine(postgresStore({ url: proxy.url }), async (engine) => {
    let fibers = 0
    await workloads[name](engine, () => {
      proxy.resetCounts()
      fibers = fibersMade()
    })
    const statements = [...proxy.statements().values()].reduce((sum, count) => sum + count, 0)
    const sent = { statements, flights: proxy.flights(), transactions: proxy.transactions() }
    counted = { ...sent, fibers: fibersMade() - fibers - 1 }
  })
  return counted
}

describe(`work for ${jobs} jobs`, () => {
  it.each(names)("SQLite: %s", async (name) => {
    expectWithin(await leastOf(() => countOnSqlite(name)), limits.sqlite[name])
  })
  it.each(names)("Postgres: %s", async (name) => {
    expectWithin(await leastOf(() => countOnPostgres(name)), limits.postgres[name])
  })
})

describe(`from the creation to the start of ${jobs} jobs, one at a time`, () => {
  it("SQLite: one transaction for each job", async () => {
    const directory = mkdtempSync(join(tmpdir(), "kiln-counts-"))
    const path = join(directory, "kiln.db")
    const commits: Array<number> = []
    try {
      await withEngine(sqliteStore({ path }), async (engine) => {
        using counter = countSqlite(path)
        let before = 0
        await startOneByOne(
          engine,
          () => (before = counter.counts().commits),
          () => commits.push(counter.counts().commits - before),
        )
      })
    } finally {
      rmSync(directory, { recursive: true })
    }
    // Without the first, which the opening created. A few may meet a claim that the worker makes by the clock.
    const own = commits.slice(1)
    expect(own).toHaveLength(jobs)
    expect(own.filter((count) => count === 1).length, `commits: ${own.join()}`).toBeGreaterThan(jobs - 5)
  })
})
