import { afterAll, describe, expect, it, vi } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { type FreshDatabase, freshDatabase } from "@kiln/postgres-lab"
import { arrangeEveryState, callEveryVerb } from "@kiln/conformance"
import { PostgresStores } from "../src/index.ts"
import { countAll, countFinished, countOfProject, depthByKind, oldestReady } from "../src/jobs/counts.ts"
import { storedLineage } from "@kiln/sql-store"
import { insertCharged } from "../src/spending.ts"
import { compiled } from "../src/Statement.ts"
import { connected, runSql } from "./support/databases.ts"
import { everyState } from "./support/everyState.ts"
import { fillTables, growing } from "./support/fillTables.ts"
import { hotVerbs } from "./support/hotVerbs.ts"
import { temporaryDatabase } from "./support/places.ts"
import { openPlanner, type Scan, type Sent, sentStatements } from "./support/plans.ts"

const rows = 60_000

/** No plan that looks up what it needs reads so many rows. All lanes are fewer. */
const many = rows / 2

/**
 * Settings of a database that make estimates worse, or planning and running dear. Where index scans or nested loops are turned off, or
 * random pages made a hundred times as dear, statements read whole tables, as that asks for.
 */
const hostile: Readonly<Record<string, string>> = {
  default_statistics_target: "1",
  jit: "on",
  jit_above_cost: "0",
  plan_cache_mode: "force_custom_plan",
  random_page_cost: "10",
  work_mem: "'64kB'",
}

const withSettings = (url: string, settings: Readonly<Record<string, string>>) => {
  const name = new URL(url).pathname.slice(1)
  return Effect.forEach(Object.entries(settings), ([setting, value]) =>
    runSql(url, `ALTER DATABASE ${name} SET ${setting} = ${value}`),
  )
}

const fill = (url: string) =>
  Effect.scoped(
    Effect.flatMap(connected(url), (client) =>
      Effect.promise(async () => {
        // Nobody analyzes these tables but the tests.
        for (const table of growing) await client.query(`ALTER TABLE kiln.${table} SET (autovacuum_enabled = false)`)
        await fillTables(client, rows)
      }),
    ),
  )

let made: Promise<FreshDatabase> | undefined
const makeFilled = async (): Promise<FreshDatabase> => {
  const database = await freshDatabase()
  const { url } = database
  await Effect.runPromise(
    Effect.provide(arrangeEveryState, PostgresStores.layer({ url, poolSize: 2, notifications: false })),
  )
  await Effect.runPromise(fill(url))
  return database
}

afterAll(async () => {
  await (await made)?.dispose()
})

/** A store of every state among many rows, of which the planner knows nothing. */
const neverAnalyzed: Effect.Effect<string, unknown, Scope.Scope> = Effect.flatMap(
  Effect.promise(() => (made ??= makeFilled())),
  ({ name }) => temporaryDatabase(name),
)

const analyzed = Effect.tap(neverAnalyzed, (url) => runSql(url, "ANALYZE"))

const deleteFilled = `SET session_replication_role = replica; ${growing
  .map((table) => `DELETE FROM kiln.${table} WHERE ${table}::text LIKE '%filled%'`)
  .join("; ")}`

const states: ReadonlyArray<readonly [state: string, place: Effect.Effect<string, unknown, Scope.Scope>]> = [
  ["many rows, never analyzed", neverAnalyzed],
  ["many rows, analyzed", analyzed],
  ["rows deleted since the last ANALYZE", Effect.tap(analyzed, (url) => runSql(url, deleteFilled))],
  [
    "many rows since the tables were analyzed with a few",
    everyState.pipe(
      Effect.tap((url) => runSql(url, "VACUUM ANALYZE")),
      Effect.tap(fill),
    ),
  ],
]

/** Whole tables, or whole indexes, for operators who want to know how many there are, and what all pending removals are changed by. */
const wholeFor: ReadonlyArray<readonly [text: RegExp | string, tables: ReadonlyArray<string>]> = [
  [compiled(countAll).sql, ["queue", "lanes", "results"]],
  // Lanes that came since the table was analyzed with a few count as this project's.
  [compiled(countOfProject).sql, ["lanes"]],
  // As many as its limit, and all lanes.
  [compiled(depthByKind).sql, ["queue", "lanes"]],
  [compiled(oldestReady).sql, ["lanes"]],
  [/^select distinct "kind" from "kiln"\."lanes"/, ["lanes"]],
  [/"firstAt" from "kiln"\."deliveries"/, ["deliveries"]],
  [/^with "waiting" as \(select "id" from "kiln"\."purges"/, ["purges"]],
  // The charges of a month, when an operator sets a spend cap.
  [compiled(insertCharged).sql, ["charges"]],
  // The last entries, from the ends of the indexes.
  [compiled(storedLineage).sql, ["jobs", "uploads"]],
]

/** With one entry of statistics for each column, the planner takes all finished jobs of a kind for recent ones. */
const badlyEstimated: typeof wholeFor = [
  [compiled(countOfProject).sql, ["results"]],
  [compiled(countFinished).sql, ["results"]],
]

const mayRead = (sql: string, { table }: Scan, whole: typeof wholeFor): boolean =>
  whole.some(([text, tables]) => (typeof text === "string" ? text === sql : text.test(sql)) && tables.includes(table))

/** Statements run once more with the parameters that they had in another store, where they may find other jobs. Triggers are off then. */
const acceptEverything = `CREATE OR REPLACE FUNCTION kiln.require_all(written bigint, expected bigint) RETURNS void LANGUAGE sql AS 'SELECT'`

let sent: Promise<ReadonlyArray<Sent>> | undefined
const statementsOfVerbs = Effect.promise(
  () => (sent ??= Effect.runPromise(Effect.scoped(Effect.flatMap(everyState, sentStatements)))),
)

const isGrowing = ({ table }: Scan): boolean => (growing as ReadonlyArray<string>).includes(table)

describe("statements look up what they need", () => {
  for (const [state, place] of states)
    it.live(state, () =>
      Effect.gen(function* () {
        const statements = yield* statementsOfVerbs
        expect(statements.length).toBeGreaterThan(100)
        const url = yield* place
        yield* runSql(url, acceptEverything)
        for (const settings of [{}, hostile]) {
          yield* withSettings(url, settings)
          // With one entry of statistics for each column.
          if (settings === hostile && state.endsWith(", analyzed")) yield* runSql(url, "ANALYZE")
          const { query, scansOf } = yield* openPlanner(url)
          yield* Effect.promise(() => query("SET session_replication_role = replica"))
          const whole = settings === hostile ? [...wholeFor, ...badlyEstimated] : wholeFor
          const found: Array<string> = []
          for (const run of ["first", "later"] as const)
            for (const statement of statements)
              for (const scan of yield* Effect.promise(() => scansOf(statement, run))) {
                if (isGrowing(scan) && scan.rows > many && !mayRead(statement.text, scan, whole))
                  found.push(
                    `${run}, ${scan.rows} rows, ${scan.node} of ${scan.table}: ${statement.text.slice(0, 300)}`,
                  )
              }
          expect(found, Object.keys(settings).length === 0 ? "default settings" : "hostile settings").toEqual([])
        }
      }),
    )
})

/** How many rows the database has read of each growing table: by scans of it, and by its indexes. */
const rowsRead = (url: string) =>
  Effect.gen(function* () {
    const client = yield* connected(url)
    // Sessions that end hand in what they counted, some time after their clients are gone.
    const others =
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    yield* Effect.repeat(
      Effect.promise(() => client.query(others)),
      { until: ({ rowCount }) => rowCount === 0 },
    )
    const text =
      "SELECT relname AS table, seq_tup_read::int AS scanned, idx_tup_fetch::int AS fetched FROM pg_stat_user_tables WHERE relname = ANY ($1)"
    const read = yield* Effect.promise(() =>
      client.query<{ table: string; scanned: number; fetched: number }>(text, [growing]),
    )
    expect(read.rows).toHaveLength(growing.length)
    return read.rows
  })

const resetCounts = (url: string) => runSql(url, "SELECT pg_stat_reset()")

describe("statements of functions and triggers look up what they need", () => {
  for (const [state, place] of states)
    it.live(state, () =>
      Effect.gen(function* () {
        const url = yield* place
        yield* Effect.scoped(rowsRead(url))
        yield* resetCounts(url)
        yield* Effect.provide(hotVerbs(1), PostgresStores.layer({ url, poolSize: 2, notifications: false }), {
          local: true,
        })
        const read = yield* rowsRead(url)
        expect(read.filter(({ fetched, scanned }) => scanned + fetched > many)).toEqual([])
      }),
    )

  it.live("also in sessions that have planned them for the tables as they were when they had a few rows", () =>
    Effect.gen(function* () {
      const url = yield* everyState
      yield* Effect.gen(function* () {
        for (const round of [1, 2, 3, 4, 5, 6, 7]) yield* hotVerbs(round)
        yield* fill(url)
        yield* resetCounts(url)
        // Sessions keep plans for a while, or until autovacuum has been there, which these tables exclude.
        const now = performance.now.bind(performance)
        const later = vi.spyOn(performance, "now").mockImplementation(() => now() + 10_000)
        yield* Effect.addFinalizer(() => Effect.sync(() => later.mockRestore()))
        yield* hotVerbs(8)
      }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 2, notifications: false }), { local: true }))
      const read = yield* rowsRead(url)
      expect(read.filter(({ fetched, scanned }) => scanned + fetched > many)).toEqual([])
    }),
  )
})

it.live("every verb works in sessions of a database with hostile settings", () =>
  Effect.gen(function* () {
    const url = yield* everyState
    yield* withSettings(url, hostile)
    yield* Effect.provide(callEveryVerb, PostgresStores.layer({ url, poolSize: 2, notifications: false }))
  }),
)
