import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import pg from "pg"
import { CallerTransactions, JobStore, WakeUp } from "@kiln/core/ports"
import { arrangeEveryState, callEveryVerb, fixtures } from "@kiln/conformance"
import { callersPool } from "@kiln/postgres-lab"
import { type PostgresOptions, postgresStore, PostgresStores } from "../src/index.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"

const { newJob, projectId } = fixtures

/** A pool of the embedding program, which ends with the scope. */
const poolOf = (config: pg.PoolConfig) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const pool = new pg.Pool(config)
      pool.on("error", () => undefined)
      return pool
    }),
    (pool) => Effect.promise(() => pool.end()),
  )

/** Replaces the driver's parsers, which belong to the whole process, until the scope ends. */
const replacedParsers = Effect.acquireRelease(
  Effect.sync(() => {
    const replaced = Object.values(pg.types.builtins).map((type) => [type, pg.types.getTypeParser(type)] as const)
    for (const [type] of replaced) pg.types.setTypeParser(type, (text) => `replaced ${text}`)
    return replaced
  }),
  (replaced) => Effect.sync(() => replaced.forEach(([type, parser]) => pg.types.setTypeParser(type, parser))),
)

const open = (options: PostgresOptions) => Layer.build(Layer.fresh(PostgresStores.layer(options)))

/** What kiln might leave in a session. */
const leftovers = `SELECT
  (SELECT count(*)::int FROM pg_settings WHERE source = 'session' AND name NOT IN ('application_name', 'client_encoding')) AS settings,
  (SELECT count(*)::int FROM pg_prepared_statements) AS prepared,
  (SELECT count(*)::int FROM pg_listening_channels()) AS listening,
  (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
  pg_backend_pid() AS pid`

/** The state of all connections that are in the pool now. */
const stateOf = async (pool: pg.Pool) => {
  const clients = await Promise.all(Array.from({ length: pool.totalCount }, () => pool.connect()))
  const states = await Promise.all(clients.map(async (client) => (await client.query<object>(leftovers)).rows[0]))
  for (const client of clients) client.release()
  return states
}

describe("a pool of the embedding program", () => {
  it.live("serves every verb, keeps nothing of kiln, and is still open afterwards", () =>
    Effect.gen(function* () {
      // Its own parsers must not reach kiln's statements.
      const types = { getTypeParser: () => (text: string) => `parsed ${text}` }
      const pool = yield* poolOf({ connectionString: yield* emptyDatabase, max: 6, types })
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* replacedParsers
          const context = yield* open({ pool })
          yield* Effect.provide(Effect.andThen(arrangeEveryState, callEveryVerb), context)
          yield* Effect.repeat(Context.get(context, WakeUp).reach, { until: (reach) => reach === "installation" })
          // A claim saves the turns of lanes afterwards, on a connection that it gives back.
          yield* Effect.promise(() => expect.poll(() => pool.totalCount - pool.idleCount).toBe(3))
        }),
      )
      expect(pool.totalCount).toBe(pool.idleCount)
      for (const state of yield* Effect.promise(() => stateOf(pool)))
        expect(state).toMatchObject({
          settings: "parsed 0",
          prepared: "parsed 0",
          listening: "parsed 0",
          locks: "parsed 0",
        })
    }),
  )

  it.live("whose connections are all in transactions that submit does not wait for itself", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const pool = callersPool(url, 5)
      yield* Effect.addFinalizer(() => Effect.promise(() => pool.end()))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const context = yield* open({ pool, connectTimeoutMs: 20_000 })
          const { createJobs } = Context.get(context, CallerTransactions)
          // Each has a project of its own, whose lane kiln makes on a connection of its own.
          const submit = (n: number) =>
            Effect.promise(async () => {
              const client = await pool.connect()
              await client.query("BEGIN")
              const job = newJob(n, { projectId: projectId(n) })
              const [outcome] = await Effect.runPromise(createJobs(client, [job]))
              await client.query("COMMIT")
              client.release()
              return outcome?._tag
            })
          const startedAt = performance.now()
          const outcomes = yield* Effect.all(
            Array.from({ length: 30 }, (_, n) => submit(n + 1)),
            { concurrency: "unbounded" },
          )
          expect(new Set(outcomes)).toEqual(new Set(["Created"]))
          // One that waits for itself would wait for the time limit.
          expect(performance.now() - startedAt).toBeLessThan(20_000)
        }),
      )
      expect(yield* runSql(url, `SELECT count(*)::int AS jobs FROM "kiln".jobs`)).toEqual([{ jobs: 30 }])
    }),
  )

  it.live("with connections in forgotten transactions: kiln's work commits, and theirs does not", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const pool = yield* poolOf({ connectionString: url, max: 4 })
      yield* runSql(url, "CREATE TABLE orders (id int)")
      yield* Effect.scoped(
        Effect.gen(function* () {
          const jobs = Context.get(yield* open({ pool, notifications: false }), JobStore)
          yield* Effect.promise(async () => {
            const clients = await Promise.all(
              Array.from({ length: pool.options.max - (pool.totalCount - pool.idleCount) }, () => pool.connect()),
            )
            for (const client of clients) await client.query("BEGIN; INSERT INTO orders VALUES (1)")
            for (const client of clients) client.release()
          })
          yield* jobs.createJobs([newJob(1)])
        }),
      )
      expect(yield* runSql(url, `SELECT count(*)::int AS jobs FROM "kiln".jobs`)).toEqual([{ jobs: 1 }])
      expect(yield* runSql(url, "SELECT count(*)::int AS orders FROM orders")).toEqual([{ orders: 0 }])
    }),
  )

  it.live("that is used up: a step fails after connectTimeoutMs and says so, and works again afterwards", () =>
    Effect.gen(function* () {
      // Waits without a limit, as pools do by default.
      const pool = yield* poolOf({ connectionString: yield* emptyDatabase, max: 4 })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const jobs = Context.get(yield* open({ pool, connectTimeoutMs: 100, reconnectForMs: 0 }), JobStore)
          const busy = yield* Effect.promise(() =>
            Promise.all(Array.from({ length: 4 - (pool.totalCount - pool.idleCount) }, () => pool.connect())),
          )
          const error = yield* Effect.flip(jobs.createJobs([newJob(1)]))
          expect(String(error.cause)).toContain("no connection of the pool became free within 100 ms")
          for (const client of busy) client.release()
          expect((yield* jobs.createJobs([newJob(1)])).map(({ _tag }) => _tag)).toEqual(["Created"])
        }),
      )
      expect(pool.waitingCount).toBe(0)
    }),
  )

  it.live("whose connections have another encoding is refused", () =>
    Effect.gen(function* () {
      const pool = yield* poolOf({
        connectionString: yield* emptyDatabase,
        onConnect: (client) => client.query("SET client_encoding TO 'LATIN1'") as never,
      })
      const error = yield* Effect.flip(Effect.scoped(open({ pool })))
      expect(String(error.cause)).toContain("client_encoding LATIN1")
    }),
  )

  it.live("reports work to other processes, and its listening connection comes back", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const pool = yield* poolOf({ connectionString: url, max: 5 })
      const scope = yield* Scope.make()
      const wakeUp = Context.get(yield* Scope.provide(open({ pool }), scope), WakeUp)
      const other = Context.get(yield* Scope.provide(open({ url }), scope), WakeUp)
      const reaches = Effect.repeat(wakeUp.reach, { until: (reach) => reach === "installation" })
      yield* reaches
      yield* Effect.timeoutOption(Effect.forever(wakeUp.wait), 200)
      yield* other.notify
      yield* wakeUp.wait
      yield* runSql(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()",
      )
      yield* Effect.repeat(wakeUp.reach, { until: (reach) => reach === "process" })
      yield* reaches
      yield* Scope.close(scope, Exit.void)
      expect(pool.totalCount).toBe(pool.idleCount)
    }),
  )
})

describe("a pool is refused", () => {
  const given = (value: unknown): never => value as never
  const of = (config: pg.PoolConfig) => new pg.Pool({ host: "127.0.0.1", ...config })

  it.each([
    [{ pool: of({ max: 3 }) }, "needs at least 4 connections of the pool, and may use 3"],
    [{ pool: of({ max: 10 }), poolSize: 2 }, "needs at least 4 connections of the pool, and may use 2"],
    [{ pool: of({ max: 3 }) }, 'or set notifications: "send", with which 3 are enough'],
    [{ pool: of({ max: 2 }), notifications: false }, "needs at least 3"],
    [{ pool: of({ binary: true } as object) }, "binary"],
    [{ pool: of({}), url: "postgres://127.0.0.1/app" }, "pass either pool or url"],
    [{ pool: new pg.Client({ host: "127.0.0.1" }), notifications: false, poolSize: 9 }, "a Pool of the driver pg"],
    [{ pool: {} }, "a Pool of the driver pg"],
  ])("%#", (options, words) => {
    expect(() => postgresStore(given(options))).toThrow(words)
  })

  it("not if it is large enough", () => {
    expect(() => postgresStore({ pool: of({ max: 4 }) })).not.toThrow()
    expect(() => postgresStore({ pool: of({ max: 3 }), notifications: "send" })).not.toThrow()
    expect(() => postgresStore({ pool: of({ max: 3 }), pooler: "transaction" })).not.toThrow()
  })
})
