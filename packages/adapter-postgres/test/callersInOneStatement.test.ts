import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { Kysely, PostgresDialect } from "kysely"
import type pg from "pg"
import { CallerTransactions, JobStore, type NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { callersPool, tcpProxy } from "@kiln/postgres-lab"
import { PostgresStores } from "../src/index.ts"
import { connected, emptyDatabase, runSql } from "./support/databases.ts"

const { jobId, newJob, projectId } = fixtures

const sql = (client: pg.Client, text: string) => Effect.promise(() => client.query(text))

const tags = (handle: unknown, ...jobs: ReadonlyArray<NewJob>) =>
  Effect.flatMap(CallerTransactions, ({ createJobs }) =>
    Effect.map(createJobs(handle, jobs), (outcomes) => outcomes.map(({ _tag }) => _tag)),
  )

/** What a call fails with. */
const failure = <A, E, R>(call: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.exit(call), (exit) => (Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined))

const storedIds = (url: string) =>
  Effect.map(runSql(url, `SELECT id FROM "kiln".jobs ORDER BY seq`), (rows) =>
    rows.map((row) => (row as { id: string }).id),
  )

const ids = (...numbers: ReadonlyArray<number>) => numbers.map((n) => jobId(n))

/** A client of the embedding program's that notes what kiln sends on it. */
const noting = (client: pg.Client) => {
  const texts: Array<string> = []
  const query = (text: string, values: Array<unknown>) => {
    texts.push(text)
    return client.query(text, values)
  }
  return { texts, query }
}

/**
 * Stores behind a proxy, and a client beside it. A transaction was committed, so that the next needs one statement; its job is
 * claimable in an hour, or at once.
 */
const warm = (delayMs: number) =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    const proxy = yield* Effect.acquireRelease(
      Effect.promise(() => tcpProxy(url)),
      (made) => Effect.promise(() => made.close()),
    )
    const client = yield* connected(url)
    const options = { url: proxy.url, poolSize: 3, notifications: false, retryForMs: 300, reconnectForMs: 300 }
    const provided = <A, E>(work: Effect.Effect<A, E, CallerTransactions | JobStore>) =>
      Effect.gen(function* () {
        yield* sql(client, "BEGIN")
        expect(yield* tags(client, newJob(100, { delayMs }))).toEqual(["Created"])
        yield* sql(client, "COMMIT")
        proxy.resetCounts()
        return yield* work
      }).pipe(Effect.provide(PostgresStores.layer(options)))
    return { url, proxy, client, provided }
  })

const anHourMs = 3_600_000

describe("after the first call of a process, a submission in a caller's transaction", () => {
  for (const [what, jobs] of [
    ["of one job", [newJob(1)]],
    ["of a job with a queue cap", [newJob(1, { queueCap: 2 })]],
    ["of a thousand jobs", Array.from({ length: 1_000 }, (_, n) => newJob(1_000 + n))],
  ] as const)
    it.live(`${what} sends one statement, and none on kiln's own connections if the lane has work`, () =>
      Effect.gen(function* () {
        const { client, provided, proxy, url } = yield* warm(0)
        yield* provided(
          Effect.gen(function* () {
            yield* sql(client, "BEGIN")
            const { query, texts } = noting(client)
            expect(new Set(yield* tags({ query }, ...jobs))).toEqual(new Set(["Created"]))
            expect(texts.length).toBe(1)
            expect([...proxy.statements()]).toEqual([])
            yield* sql(client, "COMMIT")
            expect(yield* storedIds(url)).toEqual([jobId(100), ...jobs.map(({ id }) => id)])
            expect(yield* runSql(url, `SELECT FROM "kiln".caller_marks`)).toEqual([])
          }),
        )
      }),
    )

  for (const isolation of ["READ COMMITTED", "REPEATABLE READ"])
    it.live(`makes the job claimable in a lane without work, at ${isolation}`, () =>
      Effect.gen(function* () {
        const { client, provided } = yield* warm(anHourMs)
        yield* provided(
          Effect.gen(function* () {
            yield* sql(client, `BEGIN ISOLATION LEVEL ${isolation}`)
            const { query, texts } = noting(client)
            expect(yield* tags({ query }, newJob(1))).toEqual(["Created"])
            expect(texts.length).toBe(1)
            yield* sql(client, "COMMIT")
            const { claimJobs } = yield* JobStore
            const { claims } = yield* claimJobs({
              runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
              limits: fixtures.noLimits,
              limit: 9,
              leaseDurationMs: 60_000,
              maxLostWorkers: 3,
            })
            expect(claims.map(({ job }) => job.id)).toEqual(ids(1))
          }),
        )
      }),
    )

  it.live("is decided by the facts if a key is bound, the queue is full or the lane is new", () =>
    Effect.gen(function* () {
      const { client, provided, url } = yield* warm(0)
      yield* provided(
        Effect.gen(function* () {
          yield* sql(client, "BEGIN")
          expect(yield* tags(client, newJob(1), newJob(100, { id: jobId(7), delayMs: 0 }))).toEqual([
            "Created",
            "Replayed",
          ])
          expect(yield* tags(client, newJob(2, { queueCap: 3 }), newJob(3, { queueCap: 3 }))).toEqual([
            "Created",
            "QueueFull",
          ])
          expect(yield* tags(client, newJob(4), newJob(4, { id: jobId(8) }))).toEqual(["Created", "Replayed"])
          expect(yield* tags(client, newJob(5, { projectId: projectId(5) }))).toEqual(["Created"])
          yield* sql(client, "COMMIT")
          expect(yield* storedIds(url)).toEqual(ids(100, 1, 2, 4, 5))
        }),
      )
    }),
  )

  it.live("is refused outside of a transaction, and nothing is stored", () =>
    Effect.gen(function* () {
      const { client, provided, url } = yield* warm(0)
      yield* provided(
        Effect.gen(function* () {
          const pool = callersPool(url)
          for (const handle of [client, pool]) {
            const refused = yield* failure(tags(handle, newJob(1)))
            expect(refused).toBeInstanceOf(TypeError)
            expect(String(refused)).toContain("no transaction was begun")
          }
          yield* Effect.promise(() => pool.end())
          expect(yield* storedIds(url)).toEqual(ids(100))
        }),
      )
    }),
  )

  it.live("works while the caller's constraints are immediate", () =>
    Effect.gen(function* () {
      const { client, provided, url } = yield* warm(0)
      yield* provided(
        Effect.gen(function* () {
          yield* sql(client, "BEGIN; SET CONSTRAINTS ALL IMMEDIATE")
          expect(yield* tags(client, newJob(1))).toEqual(["Created"])
          yield* sql(client, "COMMIT; BEGIN")
          expect(yield* tags(client, newJob(2))).toEqual(["Created"])
          yield* sql(client, "SET CONSTRAINTS ALL IMMEDIATE")
          yield* sql(client, "COMMIT")
          expect(yield* storedIds(url)).toEqual(ids(100, 1, 2))
        }),
      )
    }),
  )

  it.live("undoes an error of the server and leaves the transaction usable", () =>
    Effect.gen(function* () {
      const { client, provided, url } = yield* warm(0)
      yield* provided(
        Effect.gen(function* () {
          yield* sql(client, "BEGIN")
          const { query, texts } = noting(client)
          // The second has the id of a job that is there under another key.
          expect(yield* failure(tags({ query }, newJob(1), newJob(2, { id: jobId(100) })))).toMatchObject({
            code: "23505",
          })
          expect(texts.length).toBe(1)
          expect(yield* tags(client, newJob(3))).toEqual(["Created"])
          yield* sql(client, "COMMIT")
          expect(yield* storedIds(url)).toEqual(ids(100, 3))
          yield* sql(client, "BEGIN READ ONLY")
          expect(String(yield* failure(tags(client, newJob(4))))).toContain("read-only")
          yield* sql(client, "ROLLBACK")
        }),
      )
    }),
  )

  it.live("waits for a call on another handle of the transaction that may roll back to its savepoint", () =>
    Effect.gen(function* () {
      const { client, provided, url } = yield* warm(0)
      yield* provided(
        Effect.gen(function* () {
          yield* sql(client, "BEGIN; SET LOCAL kiln.creating = 'on'")
          const { query, texts } = noting(client)
          expect(yield* tags({ query }, newJob(1))).toEqual(["Created"])
          expect(texts.some((text) => text.startsWith("SAVEPOINT"))).toBe(true)
          yield* sql(client, "COMMIT")
          const pool = callersPool(url, 1)
          const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) })
          const transaction = yield* Effect.promise(() => db.startTransaction().execute())
          const retry = newJob(2, { retryOf: jobId(100), id: jobId(100) })
          for (let n = 3; n < 9; n += 1) {
            const calls = [tags(transaction, newJob(n)), tags(transaction.withSchema("x"), retry)].map(Effect.exit)
            const [one] = yield* Effect.all(calls, { concurrency: 2 })
            expect(one).toEqual(Exit.succeed(["Created"]))
          }
          yield* Effect.promise(() => transaction.commit().execute())
          yield* Effect.promise(() => pool.end())
          expect(yield* storedIds(url)).toEqual(ids(100, 1, 3, 4, 5, 6, 7, 8))
        }),
      )
    }),
  )

  it.live("is refused on another database, and the transaction has to be rolled back", () =>
    Effect.gen(function* () {
      const { provided, url } = yield* warm(0)
      const elsewhere = yield* connected(yield* emptyDatabase)
      yield* provided(
        Effect.gen(function* () {
          yield* sql(elsewhere, "BEGIN")
          const refused = yield* failure(tags(elsewhere, newJob(1)))
          expect(refused).toBeInstanceOf(TypeError)
          expect(String(refused)).toContain("must be on the store's server and database")
          expect((yield* sql(elsewhere, "COMMIT")).command).toBe("ROLLBACK")
          expect(yield* storedIds(url)).toEqual(ids(100))
        }),
      )
    }),
  )

  it.live("on another database with a kiln schema stores nothing there", () =>
    Effect.gen(function* () {
      const { provided } = yield* warm(0)
      const there = yield* warm(0)
      yield* there.provided(Effect.void)
      yield* provided(
        Effect.gen(function* () {
          yield* sql(there.client, "BEGIN")
          const refused = yield* failure(tags(there.client, newJob(1)))
          expect(String(refused)).toContain("must be on the store's server and database")
          expect((yield* sql(there.client, "COMMIT")).command).toBe("COMMIT")
          expect(yield* storedIds(there.url)).toEqual(ids(100))
        }),
      )
    }),
  )

  it.live("aborts the transaction if the lane cannot be made ready for the job", () =>
    Effect.gen(function* () {
      const { client, provided, proxy, url } = yield* warm(anHourMs)
      yield* provided(
        Effect.gen(function* () {
          yield* sql(client, "BEGIN")
          yield* Effect.promise(() => proxy.close())
          expect(yield* failure(tags(client, newJob(1)))).toMatchObject({ _tag: "StoreUnavailable" })
          expect((yield* sql(client, "COMMIT")).command).toBe("ROLLBACK")
          expect(yield* storedIds(url)).toEqual(ids(100))
        }),
      )
    }),
  )
})
