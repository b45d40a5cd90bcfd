import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer } from "effect"
import { JobStore } from "@kiln/core/ports"
import { tcpProxy } from "@kiln/postgres-lab"
import { arrangeEveryState, callEveryVerb, compareWithMemory, fixtures } from "@kiln/conformance"
import { type PostgresOptions, postgresMigrations, PostgresStores } from "../src/index.ts"
import { applyMigrations } from "../src/migrations/migrate.ts"
import { migrations } from "../src/migrations/index.ts"
import type { Migration } from "@kiln/core/ports"
import { connect } from "../src/connection/openDatabase.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"
import { ownPlace } from "./support/ownPlace.ts"

const bundled = migrations.map(({ name }) => name)

/** Everything in the database that is not the server's own. */
const objectsOf = (url: string) =>
  runSql(
    url,
    `SELECT nspname AS schema, relname AS name FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
     WHERE nspname !~ '^(pg_|information_schema)' UNION ALL
     SELECT nspname, NULL FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|public)' ORDER BY 1, 2`,
  )
const appliedTo = (url: string, schema = "kiln") =>
  Effect.map(runSql(url, `SELECT name FROM "${schema}".migrations ORDER BY name`), (rows) =>
    rows.map((row) => Object(row).name as unknown),
  )

const open = (options: PostgresOptions) =>
  Effect.scoped(Layer.build(PostgresStores.layer({ poolSize: 2, notifications: false, ...options })))

const apply = (options: PostgresOptions, list: ReadonlyArray<Migration>) =>
  Effect.scoped(
    Effect.flatMap(connect(options), ({ connections, database }) =>
      applyMigrations(database, connections.schema, list),
    ),
  )

describe("several processes at once", () => {
  it.live("of eight processes that open an empty database one migrates, and all work", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const create = (n: number) =>
        Effect.provide(
          Effect.flatMap(JobStore, ({ createJobs }) => createJobs([fixtures.newJob(n)])),
          PostgresStores.layer({ url, poolSize: 2, notifications: false }),
          { local: true },
        )
      const outcomes = yield* Effect.all([1, 2, 3, 4, 5, 6, 7, 8].map(create), { concurrency: "unbounded" })
      expect(outcomes.flat().map(({ _tag }) => _tag)).toEqual(Array.from({ length: 8 }, () => "Created"))
      expect(yield* appliedTo(url)).toEqual(bundled)
    }),
  )

  it.live("of eight that apply migrations, one returns their names", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const applied = yield* Effect.all(
        Array.from({ length: 8 }, () => postgresMigrations.apply({ url })),
        { concurrency: "unbounded" },
      )
      expect(applied.flat()).toEqual(bundled)
    }),
  )

  it.live("a start without pending migrations does not wait for one that migrates", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* open({ url })
      // The lock that migrations take, for longer than anybody would wait for it.
      const lock = "SELECT pg_advisory_xact_lock(hashtextextended('kiln migrations', 0))"
      const proxy = yield* Effect.acquireRelease(
        Effect.promise(() => tcpProxy(url)),
        (made) => Effect.promise(() => made.close()),
      )
      const holding = yield* Effect.forkScoped(Effect.exit(runSql(proxy.url, `BEGIN; ${lock}; SELECT pg_sleep(60)`)))
      yield* Effect.repeat(
        runSql(url, "SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND granted"),
        { until: ([row]) => Object(row).n > 0 },
      )
      yield* open({ url, lockTimeoutMs: 50, retryForMs: 50 })
      expect(holding.pollUnsafe()).toBe(undefined)
      proxy.cutAll()
    }),
  )
})

describe("killed half way", () => {
  it.live("the process: leaves nothing behind, and the next one applies everything", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const proxy = yield* Effect.acquireRelease(
        Effect.promise(() => tcpProxy(url)),
        (made) => Effect.promise(() => made.close()),
      )
      // All tables are made by then.
      const cut = proxy.cutBefore(/INSERT INTO "kiln".migrations/)
      const error = yield* Effect.flip(open({ url: proxy.url, reconnectForMs: 0 }))
      expect(error).toMatchObject({ _tag: "StoreUnavailable", operation: "migrate" })
      yield* Effect.promise(() => cut)
      expect(yield* objectsOf(url)).toEqual([])
      yield* open({ url })
      expect(yield* appliedTo(url)).toEqual(bundled)
    }),
  )

  it.live("the server's process: the same", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const suicide = `CREATE TABLE "kiln".half_way (id int); SELECT pg_terminate_backend(pg_backend_pid())`
      const exit = yield* Effect.exit(
        apply({ url, reconnectForMs: 0 }, [...migrations, { name: "9999Killed", sql: suicide }]),
      )
      expect(exit).toMatchObject(Exit.fail({ _tag: "StoreUnavailable", cause: { code: "57P01" } }))
      expect(yield* objectsOf(url)).toEqual([])
      yield* open({ url })
      expect(yield* appliedTo(url)).toEqual(bundled)
    }),
  )

  it.live("reconnects after losing the connection, also at the commit", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const proxy = yield* Effect.acquireRelease(
        Effect.promise(() => tcpProxy(url)),
        (made) => Effect.promise(() => made.close()),
      )
      const cut = proxy.cutBefore(/CREATE TABLE "kiln".jobs/)
      const dropped = proxy.dropAnswer()
      expect(yield* postgresMigrations.apply({ url: proxy.url })).toEqual(bundled)
      yield* Effect.promise(() => Promise.all([cut, dropped]))
      expect(yield* appliedTo(url)).toEqual(bundled)
    }),
  )
})

describe("a migration", () => {
  it.live("that fails is rolled back, together with those before it", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* open({ url })
      const before = yield* objectsOf(url)
      const exit = yield* Effect.exit(
        apply({ url }, [
          ...migrations,
          { name: "9998Fine", sql: `CREATE TABLE "kiln".fine (id int)` },
          { name: "9999Broken", sql: `CREATE TABLE "kiln".half (id int); CREATE TABLE "kiln".jobs (id int)` },
        ]),
      )
      expect(Exit.isFailure(exit) && Cause.squash(exit.cause)).toMatchObject({ code: "42P07" })
      expect(yield* objectsOf(url)).toEqual(before)
      expect(yield* appliedTo(url)).toEqual(bundled)
    }),
  )

  it.live("may take longer than any statement or step of the service", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const slow = { name: "9999Slow", sql: `SELECT pg_sleep(0.6); CREATE TABLE "kiln".slow (id int)` }
      expect(yield* apply({ url, statementTimeoutMs: 150 }, [...migrations, slow])).toEqual([...bundled, slow.name])
    }),
  )

  it.live("of a newer version is tolerated, reported, and not applied a second time", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const newer = {
        name: "9999Newer",
        sql: `CREATE TABLE "kiln".newer (id int); ALTER TABLE "kiln".jobs ADD extra int`,
      }
      expect(yield* apply({ url }, [...migrations, newer])).toEqual([...bundled, newer.name])
      expect(yield* apply({ url }, [...migrations, newer])).toEqual([])
      expect(yield* postgresMigrations.status({ url })).toMatchObject({ pending: [], unknown: [newer.name] })
      // This version knows nothing of it, and works all the same.
      const layer = PostgresStores.layer({ url, poolSize: 2, notifications: false, migrate: false })
      yield* Effect.provide(Effect.andThen(arrangeEveryState, callEveryVerb), layer)
    }),
  )
})

describe("migrate: false", () => {
  it.live("on an empty database fails, names what is pending, and changes nothing", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const error = yield* Effect.flip(open({ url, migrate: false }))
      expect(error).toMatchObject({ _tag: "StoreUnavailable", operation: "migrate" })
      expect(String(error.cause)).toContain(
        `the schema kiln is not up to date; pending migrations: ${bundled.join(", ")}`,
      )
      expect(yield* objectsOf(url)).toEqual([])
      expect(yield* postgresMigrations.status({ url })).toMatchObject({ applied: [], pending: migrations, unknown: [] })
      yield* postgresMigrations.apply({ url })
      yield* open({ url, migrate: false })
    }),
  )
})

describe("schemas", () => {
  it.live("two schemas in one database are independent", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* open({ url })
      const layer = PostgresStores.layer({ url, schema: "other_schema", poolSize: 2, notifications: false })
      yield* Effect.provide(Effect.andThen(arrangeEveryState, callEveryVerb), layer)
      expect(yield* appliedTo(url, "other_schema")).toEqual(bundled)
      const tables = (yield* objectsOf(url)).map((row) => Object(row) as { schema: string; name: string })
      const namesIn = (schema: string) => tables.filter((row) => row.schema === schema).map(({ name }) => name)
      expect(namesIn("other_schema")).toEqual(namesIn("kiln"))
      // What the verbs did in the other is not to be seen in this one.
      for (const table of [
        "jobs",
        "results",
        "queue",
        "lanes",
        "uploads",
        "files",
        "charges",
        "purges",
        "projects",
        "prices",
        "workers",
      ])
        expect(yield* runSql(url, `SELECT * FROM "kiln".${table}`), table).toEqual([])
      expect(yield* runSql(url, `SELECT virtual_time FROM "kiln".fairness`)).toEqual([{ virtual_time: "0" }])
    }),
  )

  for (const schema of ["Kiln", "my schema", 'a"b', "a;b", "1a", "", "ki-ln", "a".repeat(52), "schéma", "kiln\n"])
    it.live(`no such name: ${JSON.stringify(schema)}`, () =>
      Effect.gen(function* () {
        const url = yield* emptyDatabase
        const exit = yield* Effect.exit(open({ url, schema }))
        expect(Exit.isFailure(exit) && String(Cause.squash(exit.cause))).toContain("schema must be a lower-case name")
        expect(yield* objectsOf(url)).toEqual([])
      }),
    )
})

compareWithMemory({
  name: "Postgres, in a schema of another name,",
  place: Effect.flatMap(emptyDatabase, (url) => ownPlace({ url, stores: { schema: "other_schema" } })),
  capabilities: { durable: true, multiProcess: true },
  runs: 1,
})
