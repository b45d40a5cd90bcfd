import { expect, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber } from "effect"
import { Kysely, PostgresDialect } from "kysely"
import type pg from "pg"
import { CallerTransactions, JobStore, type NewJob, UploadStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { callersPool } from "@kiln/postgres-lab"
import { type KyselyTransaction, type PgClient, PostgresStores } from "../src/index.ts"
import { connected, emptyDatabase, runSql } from "./support/databases.ts"

const { jobId, newJob } = fixtures

const sql = (client: pg.Client, text: string) => Effect.promise(() => client.query(text))
const stores = (url: string) =>
  PostgresStores.layer({ url, poolSize: 4, notifications: false, lockTimeoutMs: 300, retryForMs: 500 })

const tags = (client: PgClient | KyselyTransaction, ...jobs: ReadonlyArray<NewJob>) =>
  Effect.flatMap(CallerTransactions, ({ createJobs }) =>
    Effect.map(createJobs(client, jobs), (outcomes) => outcomes.map(({ _tag }) => _tag)),
  )

/** Until somebody waits for another's transaction. */
const waiting = (url: string) =>
  Effect.repeat(
    runSql(url, "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"),
    { until: (rows) => rows.length > 0 },
  )

/** What a call is told that the calling program does wrong. */
const misuse = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.exit(call), (exit) => (Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined))

it.live("keeps what the caller writes while a submission waits for another transaction's key", () =>
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

it.live("refuses a transaction of another database that has a kiln schema", () =>
  Effect.gen(function* () {
    const [url, elsewhere] = [yield* emptyDatabase, yield* emptyDatabase]
    for (const place of [url, elsewhere])
      yield* Effect.flatMap(JobStore, ({ createJobs }) => createJobs([newJob(1)])).pipe(Effect.provide(stores(place)))
    const client = yield* connected(elsewhere)
    yield* sql(client, "BEGIN")
    const refused = yield* misuse(tags(client, newJob(2)).pipe(Effect.provide(stores(url))))
    yield* sql(client, "COMMIT")
    expect(yield* runSql(elsewhere, `SELECT id FROM "kiln".jobs WHERE id = '${jobId(2)}'`)).toEqual([])
    expect(refused).toBeInstanceOf(TypeError)
    expect(String(refused)).toContain("must be on the store's server and database")
  }),
)

it.live("refuses a transaction of a database without a kiln schema, which stays usable", () =>
  Effect.gen(function* () {
    const [url, elsewhere] = [yield* emptyDatabase, yield* emptyDatabase]
    const client = yield* connected(elsewhere)
    yield* sql(client, "BEGIN; CREATE TABLE orders (id int)")
    const refused = yield* misuse(tags(client, newJob(1)).pipe(Effect.provide(stores(url))))
    expect(String(refused)).toContain("must be on the store's server and database")
    yield* sql(client, "INSERT INTO orders VALUES (1); COMMIT")
    expect(yield* runSql(elsewhere, "SELECT id FROM orders")).toEqual([{ id: 1 }])
  }),
)

it.live(
  "of several jobs of one call, those whose keys another bound meanwhile are its jobs, and the others exist",
  () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const [one, other] = [yield* connected(url), yield* connected(url)]
      yield* Effect.gen(function* () {
        yield* sql(other, "BEGIN")
        yield* tags(other, newJob(2), newJob(3))
        yield* sql(one, "BEGIN")
        const repeat = newJob(2, { id: jobId(12) })
        const reuse = newJob(3, { id: jobId(13), fingerprint: fixtures.digest(13) })
        const submitting = yield* Effect.forkChild(tags(one, newJob(1), repeat, reuse, newJob(4)), {
          startImmediately: true,
        })
        yield* waiting(url)
        yield* sql(other, "COMMIT")
        expect(yield* Fiber.join(submitting)).toEqual(["Created", "Replayed", "KeyReused", "Created"])
        yield* sql(one, "COMMIT")
        const { claimJobs } = yield* JobStore
        const runnable = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }]
        const { claims } = yield* claimJobs({
          runnable,
          limits: fixtures.noLimits,
          limit: 9,
          leaseDurationMs: 60_000,
          maxLostWorkers: 3,
        })
        expect(claims.map(({ job }) => job.id).toSorted()).toEqual([1, 2, 3, 4].map((n) => jobId(n)))
      }).pipe(Effect.provide(stores(url)))
    }),
)

it.live("distinguishes an aborted transaction from an unavailable store", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const client = yield* connected(url)
    yield* sql(client, "BEGIN")
    yield* Effect.promise(() => expect(client.query("SELECT 1 / 0")).rejects.toThrow("division by zero"))
    const refused = yield* misuse(tags(client, newJob(1)).pipe(Effect.provide(stores(url))))
    expect(refused).toBeInstanceOf(TypeError)
    expect(String(refused)).toContain("the transaction is aborted")
  }),
)

it.live("keeps the work of one handle if a concurrent call on another handle of the same transaction fails", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const pool = callersPool(url)
    const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) })
    yield* Effect.gen(function* () {
      const { createJobs } = yield* JobStore
      yield* createJobs([newJob(9)])
      const transaction = yield* Effect.acquireRelease(
        Effect.promise(() => db.startTransaction().execute()),
        (begun) =>
          Effect.promise(async () => {
            if (!begun.isCommitted) await begun.rollback().execute()
            await pool.end()
          }),
      )
      // The second has the id of a job that is there under another key, and breaks.
      const exits = yield* Effect.all(
        [tags(transaction, newJob(1)), tags(transaction.withSchema("x"), newJob(2, { id: jobId(9) }))].map(Effect.exit),
        { concurrency: 2 },
      )
      expect(exits.map(Exit.isFailure)).toEqual([false, true])
      yield* Effect.promise(() => transaction.commit().execute())
      expect(yield* runSql(url, `SELECT id FROM "kiln".jobs ORDER BY id`)).toEqual(
        [1, 9].map((n) => ({ id: jobId(n) })),
      )
    }).pipe(Effect.provide(stores(url)))
  }),
)

it.live(
  "asks to retry the transaction if the key of a retry was bound meanwhile, and the failed job keeps its upload",
  () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const [one, other] = [yield* connected(url), yield* connected(url)]
      yield* Effect.gen(function* () {
        const { cancelJobs, createJobs } = yield* JobStore
        const { claimUpload, completeUpload, createUploads } = yield* UploadStore
        const uploadId = fixtures.uploadId(1)
        yield* createUploads([fixtures.newUpload(1)])
        yield* claimUpload({ uploadId, leaseDurationMs: 60_000, maxTransfers: fixtures.maxTransfers })
        yield* completeUpload({ uploadId, token: 1, file: fixtures.uploadedFile(uploadId, 1) })
        yield* createJobs([fixtures.newUploadJob(1, { uploadId })])
        yield* cancelJobs([jobId(1)])
        yield* sql(other, "BEGIN")
        yield* tags(other, newJob(2))
        yield* sql(one, "BEGIN")
        const { idempotencyKey } = newJob(2)
        const retry = fixtures.newUploadJob(3, { uploadId, retryOf: jobId(1), idempotencyKey })
        const retrying = yield* Effect.forkChild(tags(one, retry), { startImmediately: true })
        yield* waiting(url)
        yield* sql(other, "COMMIT")
        const exit = yield* Fiber.await(retrying)
        expect(Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined).toMatchObject({ _tag: "StoreUnavailable" })
        expect(yield* tags(one, retry)).toEqual(["KeyReused"])
        yield* sql(one, "COMMIT")
        expect(yield* runSql(url, `SELECT id FROM "kiln".jobs WHERE upload_id = '${uploadId}'`)).toEqual([
          { id: jobId(1) },
        ])
      }).pipe(Effect.provide(stores(url)))
    }),
)
