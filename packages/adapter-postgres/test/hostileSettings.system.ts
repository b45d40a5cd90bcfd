import { describe, expect, it, vi } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import pg from "pg"
import { CallerTransactions, SecretStore } from "@kiln/core/ports"
import { arrangeEveryState, callEveryVerb, compareWithMemory, fixtures } from "@kiln/conformance"
import { openCopyTarget, postgresMigrations, PostgresStores } from "../src/index.ts"
import { begun, emptyDatabase, runSql } from "./support/databases.ts"
import { ownPlace } from "./support/ownPlace.ts"

const { jobId, newJob } = fixtures

/** Settings under which a statement means something else, or fails, if nobody pins them. */
const hostile: Readonly<Record<string, string>> = {
  array_nulls: "off",
  bytea_output: "escape",
  DateStyle: "'SQL, DMY'",
  default_transaction_deferrable: "on",
  default_transaction_isolation: "serializable",
  default_statistics_target: "1",
  enable_indexonlyscan: "off",
  enable_indexscan: "off",
  enable_nestloop: "off",
  extra_float_digits: "-10",
  idle_in_transaction_session_timeout: "'1ms'",
  idle_session_timeout: "'50ms'",
  IntervalStyle: "sql_standard",
  jit: "on",
  jit_above_cost: "0",
  lock_timeout: "'1ms'",
  plan_cache_mode: "force_custom_plan",
  random_page_cost: "100",
  search_path: "nowhere",
  standard_conforming_strings: "off",
  statement_timeout: "'1ms'",
  synchronous_commit: "off",
  TimeZone: "'Asia/Kathmandu'",
  transform_null_equals: "on",
  work_mem: "'64kB'",
}

/** Limits that are over before a session can set others. */
const limits = ["idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout", "statement_timeout"]

/** What a transaction cannot set for statements outside of it. Installations with a pooler must leave these alone. */
const ofSessions = ["idle_session_timeout", "lock_timeout", "statement_timeout"]

/** An empty database whose every session begins with these settings. */
const databaseWith = (settings: Readonly<Record<string, string>>) =>
  Effect.tap(emptyDatabase, (url) => {
    const name = new URL(url).pathname.slice(1)
    const each = Object.entries(settings).map(([setting, value]) => `ALTER DATABASE ${name} SET ${setting} = ${value}`)
    // Each by itself: statement_timeout counts for what comes after it.
    const admin = new URL(url)
    admin.pathname = "/postgres"
    return Effect.forEach(each, (sql) => runSql(admin.href, sql))
  })

const without = (names: ReadonlyArray<string>) =>
  Object.fromEntries(Object.entries(hostile).filter(([name]) => !names.includes(name)))

/** What the sessions of stores have for these settings, whatever a database says. */
const sessionsOf = (url: string, names: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const query = vi.spyOn(pg.Client.prototype, "query")
    yield* Effect.andThen(arrangeEveryState, callEveryVerb)
    const clients = new Set(query.mock.contexts.filter((context) => context instanceof pg.Client))
    query.mockRestore()
    const text = "SELECT lower(name) AS name, setting FROM pg_settings WHERE lower(name) = ANY ($1) ORDER BY 1"
    return yield* Effect.forEach([...clients], (client) =>
      Effect.promise(async () => {
        const { rows } = await client.query<{ name: string; setting: string }>(text, [names])
        return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))
      }),
    )
  }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 3, notifications: false })))

describe("a database with hostile settings", () => {
  it.live("is migrated, every verb works, and each session of a store has its own settings", () =>
    Effect.gen(function* () {
      const url = yield* databaseWith(hostile)
      const names = Object.keys(hostile).map((name) => name.toLowerCase())
      const theirs = Object.fromEntries(names.map((name) => [name, expect.any(String)]))
      const sessions = yield* sessionsOf(url, names)
      expect(sessions.length).toBeGreaterThan(1)
      for (const session of sessions)
        expect(session).toEqual({
          ...theirs,
          array_nulls: "on",
          bytea_output: "hex",
          datestyle: "ISO, MDY",
          default_transaction_deferrable: "off",
          default_transaction_isolation: "read committed",
          // The planner's settings stay those of the database.
          enable_indexonlyscan: "off",
          enable_indexscan: "off",
          enable_nestloop: "off",
          extra_float_digits: "1",
          idle_session_timeout: "0",
          intervalstyle: "postgres",
          jit: "on",
          plan_cache_mode: "force_custom_plan",
          random_page_cost: "100",
          search_path: "pg_catalog",
          standard_conforming_strings: "on",
          synchronous_commit: "on",
          timezone: "UTC",
          transform_null_equals: "off",
        })
    }),
  )

  it.live("accepts a copy", () =>
    Effect.gen(function* () {
      const url = yield* databaseWith(without(limits))
      yield* postgresMigrations.apply({ url })
      const target = yield* openCopyTarget({ url })
      yield* target.write("secrets", [{ name: "signing", value: Uint8Array.of(0, 255) }])
      yield* target.commit([{ table: "secrets", count: 1 }])
      const secrets = Effect.flatMap(SecretStore, (store) => store.find("signing"))
      const found = yield* Effect.provide(secrets, PostgresStores.layer({ url, notifications: false }))
      expect([...(found ?? [])]).toEqual([0, 255])
    }),
  )
})

/** The same once the schema is there; the test's own connection has begun by then. */
const beginWith = (settings: Readonly<Record<string, string>>) => async (client: pg.Client) => {
  for (const [setting, value] of Object.entries(settings))
    await client.query(
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET ${setting} = ${value.replaceAll("'", "''")}', current_database()); END $$`,
    )
}

compareWithMemory({
  name: "Postgres, in a database with hostile settings,",
  place: Effect.flatMap(emptyDatabase, (url) => ownPlace({ url, prepare: beginWith(hostile) })),
  capabilities: { durable: true, multiProcess: true },
  runs: 1,
})

compareWithMemory({
  name: "Postgres, behind a pooler, in a database with hostile settings,",
  place: Effect.flatMap(emptyDatabase, (url) =>
    ownPlace({ url, prepare: beginWith(without(ofSessions)), stores: { pooler: "transaction" } }),
  ),
  capabilities: { durable: true, multiProcess: true },
  runs: 1,
})

describe("a caller's transaction in a session with hostile settings", () => {
  const create = (client: object, n: number) =>
    Effect.flatMap(CallerTransactions, ({ createJobs }) => createJobs(client, [newJob(n, { id: jobId(n + 10) })]))

  /** What a caller would notice of, and what is not this verb's to change. */
  const callers = without([...ofSessions, "idle_in_transaction_session_timeout", "default_transaction_isolation"])

  it.live("accepts jobs and replays, and keeps its settings", () =>
    Effect.gen(function* () {
      const url = yield* databaseWith(callers)
      yield* postgresMigrations.apply({ url })
      yield* Effect.gen(function* () {
        const client = yield* begun(url)
        const sent = (sql: string) => Effect.promise(() => client.query(sql))
        const settings = `SELECT name, setting FROM pg_settings WHERE source = 'database' ORDER BY name`
        const before = (yield* sent(settings)).rows
        expect(before.length).toBeGreaterThan(10)
        expect(yield* create(client, 1)).toMatchObject([{ _tag: "Created" }])
        expect(yield* create(client, 1)).toMatchObject([{ _tag: "Replayed" }])
        const names = before.map(({ name }) => `'${name}'`).join(", ")
        expect(
          (yield* sent(`SELECT name, setting FROM pg_settings WHERE name IN (${names}) ORDER BY name`)).rows,
        ).toEqual(before)
        yield* sent("COMMIT")
      }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 3, notifications: false })))
    }),
  )

  it.live("is refused with a clear message if it is read-only", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* Effect.gen(function* () {
        const client = yield* begun(url)
        yield* Effect.promise(() => client.query("SET TRANSACTION READ ONLY"))
        const exit = yield* Effect.exit(create(client, 1))
        const defect = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
        expect(defect).toBeInstanceOf(TypeError)
        expect(defect).toMatchObject({ message: expect.stringContaining("READ WRITE") })
      }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 3, notifications: false })))
    }),
  )
})
