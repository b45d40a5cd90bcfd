import { expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, type Scope } from "effect"
import pg from "pg"
import { CallerTransactions, JobStore, type NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/testing/conformance"
import { PostgresStores } from "../src/index.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"

const { jobId, newJob, projectId } = fixtures

const connected = (url: string): Effect.Effect<pg.Client, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: url })
      client.on("error", () => undefined)
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end()),
  )

const sql = (client: pg.Client, text: string) => Effect.promise(() => client.query(text))
const stores = (url: string) =>
  PostgresStores.layer({ url, poolSize: 4, notifications: false, lockTimeoutMs: 300, retryForMs: 500 })

const tags = (client: pg.Client, ...jobs: ReadonlyArray<NewJob>) =>
  Effect.flatMap(CallerTransactions, ({ createJobs }) =>
    Effect.map(createJobs(client, jobs), (outcomes) => outcomes.map(({ _tag }) => _tag)),
  )

/** Until somebody waits for another's transaction. */
const waiting = (url: string) =>
  Effect.repeat(
    runSql(url, "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"),
    { until: (rows) => rows.length > 0 },
  )

it.live("what the caller writes while a submission waits for another's key is still there when it commits", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* runSql(url, "CREATE TABLE orders (id int)")
    const [one, other] = [yield* connected(url), yield* connected(url)]
    yield* Effect.gen(function* () {
      yield* sql(other, "BEGIN")
      yield* tags(other, newJob(1))
      yield* sql(one, "BEGIN")
      const submitting = yield* Effect.forkChild(tags(one, newJob(1, { id: jobId(2) })), { startImmediately: true })
      yield* waiting(url)
      const inserting = one.query("INSERT INTO orders VALUES (1)")
      yield* sql(other, "COMMIT")
      yield* Effect.promise(() => inserting)
      expect(yield* Fiber.join(submitting)).toEqual(["Replayed"])
      yield* sql(one, "COMMIT")
      expect(yield* runSql(url, "SELECT id FROM orders")).toEqual([{ id: 1 }])
    }).pipe(Effect.provide(stores(url)))
  }),
)

it.live("who repeats a key that an open transaction binds makes nobody else fail", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const client = yield* connected(url)
    yield* Effect.gen(function* () {
      const { createJobs } = yield* JobStore
      yield* sql(client, "BEGIN")
      yield* tags(client, newJob(1))
      // As they stand in one batch when they come at the same moment.
      const exit = yield* Effect.exit(
        createJobs([newJob(1, { id: jobId(2) }), newJob(3, { projectId: projectId(3), keyId: fixtures.keyId(3) })]),
      )
      expect(Exit.isSuccess(exit)).toBe(true)
      yield* sql(client, "ROLLBACK")
    }).pipe(Effect.provide(stores(url)))
  }),
)

it.live("a transaction of another database that has a kiln is refused", () =>
  Effect.gen(function* () {
    const [url, elsewhere] = [yield* emptyDatabase, yield* emptyDatabase]
    for (const place of [url, elsewhere])
      yield* Effect.flatMap(JobStore, ({ createJobs }) => createJobs([newJob(1)])).pipe(Effect.provide(stores(place)))
    const client = yield* connected(elsewhere)
    yield* sql(client, "BEGIN")
    const exit = yield* Effect.exit(tags(client, newJob(2)).pipe(Effect.provide(stores(url))))
    yield* sql(client, "COMMIT")
    expect(yield* runSql(elsewhere, `SELECT id FROM "kiln".jobs WHERE id = '${jobId(2)}'`)).toEqual([])
    expect(Exit.isFailure(exit)).toBe(true)
  }),
)
