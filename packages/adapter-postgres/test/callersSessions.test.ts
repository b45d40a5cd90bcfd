import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Exit, type Scope } from "effect"
import { Kysely, ParseJSONResultsPlugin, PostgresDialect } from "kysely"
import pg from "pg"
import { CallerTransactions, type NewJob } from "@kiln/core/ports"
import { callersPool, transactionPooler } from "@kiln/postgres-lab"
import { fixtures } from "@kiln/conformance"
import { type KyselyTransaction, type PgClient, PostgresStores } from "../src/index.ts"
import { connected, emptyDatabase } from "./support/databases.ts"

const { jobId, newJob, newUploadJob, projectId } = fixtures

const sql = (client: pg.Client, text: string) => Effect.promise(() => client.query(text))

/** Handles are what the drivers' own types say. */
type Handle = PgClient | KyselyTransaction

const create = (handle: Handle, ...jobs: ReadonlyArray<NewJob>) =>
  Effect.flatMap(CallerTransactions, ({ createJobs }) => createJobs(handle, jobs))
const tags = (handle: Handle, ...jobs: ReadonlyArray<NewJob>) =>
  Effect.map(create(handle, ...jobs), (outcomes) => outcomes.map(({ _tag }) => _tag))

/** A database with stores, and a client of the embedding program's. */
const inDatabase = <A, E>(
  use: (client: pg.Client, url: string) => Effect.Effect<A, E, CallerTransactions | Scope.Scope>,
) =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    return yield* Effect.flatMap(connected(url), (client) => use(client, url)).pipe(
      Effect.provide(PostgresStores.layer({ url, poolSize: 3, notifications: false })),
    )
  })

describe("a caller's transaction with one snapshot", () => {
  for (const isolation of ["REPEATABLE READ", "SERIALIZABLE"])
    it.live(`${isolation}: accepts jobs, also of a new project and kind`, () =>
      inDatabase((client) =>
        Effect.gen(function* () {
          yield* sql(client, `BEGIN ISOLATION LEVEL ${isolation}`)
          expect(yield* tags(client, newJob(1), newJob(2, { projectId: projectId(9), kind: "new" }))).toEqual([
            "Created",
            "Created",
          ])
          yield* sql(client, "COMMIT")
        }),
      ),
    )

  it.live("has to be retried if its snapshot is older than a lane, and stays usable", () =>
    inDatabase((client) =>
      Effect.gen(function* () {
        const begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"
        yield* sql(client, begin)
        const error = yield* Effect.flip(create(client, newJob(1)))
        expect(error).toMatchObject({ _tag: "StoreUnavailable", cause: { name: "LaneNotSeen" } })
        yield* sql(client, "SELECT 1")
        yield* sql(client, "ROLLBACK")
        yield* sql(client, begin)
        expect(yield* tags(client, newJob(1))).toEqual(["Created"])
        yield* sql(client, "COMMIT")
      }),
    ),
  )

  it.live("has to be retried if its key was bound after its snapshot, and stays usable", () =>
    inDatabase((client, url) =>
      Effect.gen(function* () {
        yield* sql(client, "BEGIN")
        yield* create(client, newJob(9))
        yield* sql(client, "COMMIT")
        yield* sql(client, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        yield* create(client, newJob(8))
        const other = yield* connected(url)
        yield* sql(other, "BEGIN")
        yield* create(other, newJob(1))
        yield* sql(other, "COMMIT")
        const repeat = newJob(1, { id: jobId(2) })
        expect(yield* Effect.flip(create(client, repeat))).toMatchObject({ cause: { code: "40001" } })
        yield* sql(client, "COMMIT")
        yield* sql(client, "BEGIN")
        expect(yield* tags(client, repeat, newJob(8))).toEqual(["Replayed", "Replayed"])
        yield* sql(client, "ROLLBACK")
      }),
    ),
  )
})

describe("a caller's session", () => {
  it.live("keeps its settings, and may use any search path and type parsers", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const text: number = pg.types.builtins.TEXT
      const parse = (oid: number) => (value: string) => (oid === text ? value : `<${value}>`)
      const odd = yield* connected({ connectionString: url, types: { getTypeParser: parse } })
      yield* Effect.gen(function* () {
        yield* sql(odd, "SET enable_hashjoin = off")
        yield* sql(odd, "BEGIN; SET LOCAL search_path = nowhere; SET LOCAL enable_material = off")
        expect(yield* tags(odd, newJob(1, { queueCap: 3 }), newUploadJob(2))).toEqual(["Created", "UploadRefused"])
        const shown = ["enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_material", "search_path"]
        const values: Array<unknown> = []
        for (const name of shown) values.push(Object.values((yield* sql(odd, `SHOW ${name}`)).rows[0] as object)[0])
        expect(values).toEqual(["on", "off", "on", "off", "nowhere"])
        yield* sql(odd, "COMMIT")
        expect((yield* sql(odd, "SHOW enable_material")).rows).toEqual([{ enable_material: "on" }])
      }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 3, notifications: false })))
    }),
  )

  it.live("may have plugins of Kysely, which would parse answers that are JSON", () =>
    inDatabase((_, url) =>
      Effect.gen(function* () {
        const kysely = new Kysely({
          dialect: new PostgresDialect({ pool: callersPool(url, 1) }),
          plugins: [new ParseJSONResultsPlugin()],
        })
        for (const n of [1, 2]) {
          const transaction = yield* Effect.promise(() => kysely.startTransaction().execute())
          expect(yield* tags(transaction, newJob(n), newUploadJob(n + 10))).toEqual(["Created", "UploadRefused"])
          expect(yield* tags(transaction, newJob(n + 20))).toEqual(["Created"])
          yield* Effect.promise(() => transaction.commit().execute())
        }
        yield* Effect.promise(() => kysely.destroy())
      }),
    ),
  )

  for (const [setting, value, problem] of [
    ["client_encoding", "LATIN1", "the connection has client_encoding LATIN1, which would change the texts of jobs"],
    [
      "session_replication_role",
      "replica",
      "the connection has session_replication_role replica, which turns off the triggers of kiln's tables",
    ],
  ] as const)
    it.live(`with ${setting} ${value} is refused by name, and stays usable`, () =>
      inDatabase((client) =>
        Effect.gen(function* () {
          // The first call reads where the transaction is, and the second one is decided by one statement.
          for (const n of [1, 2]) {
            yield* sql(client, `BEGIN; SET LOCAL ${setting} = '${value}'`)
            const exit = yield* Effect.exit(create(client, newJob(n)))
            expect(Exit.isFailure(exit) && String(Cause.squash(exit.cause))).toContain(`TypeError: ${problem}`)
            yield* sql(client, `SET LOCAL ${setting} = DEFAULT`)
            expect(yield* tags(client, newJob(n))).toEqual(["Created"])
            yield* sql(client, "COMMIT")
          }
        }),
      ),
    )

  it.live("works behind a pooler", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const pooler = yield* Effect.acquireRelease(
        Effect.promise(() => transactionPooler(url, 2)),
        (made) => Effect.promise(() => made.close()),
      )
      yield* Effect.gen(function* () {
        const client = yield* connected(pooler.url)
        for (const n of [1, 2, 3]) {
          yield* sql(client, "BEGIN")
          expect(yield* tags(client, newJob(n))).toEqual(["Created"])
          yield* sql(client, "COMMIT")
        }
      }).pipe(
        Effect.provide(
          PostgresStores.layer({ url: pooler.url, pooler: "transaction", poolSize: 3, notifications: "send" }),
        ),
      )
    }),
  )

  it.live("without a transaction is a defect, and so is a Kysely instance that is not a transaction", () =>
    inDatabase((client, url) =>
      Effect.gen(function* () {
        const db = new Kysely<object>({
          dialect: new PostgresDialect({ pool: callersPool(url) }),
        })
        for (const handle of [client, db]) {
          const exit = yield* Effect.exit(
            Effect.flatMap(CallerTransactions, ({ createJobs }) => createJobs(handle, [newJob(1)])),
          )
          expect(Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined).toBeInstanceOf(TypeError)
        }
        expect(yield* sql(client, `SELECT id FROM "kiln".jobs`)).toMatchObject({ rowCount: 0 })
      }),
    ),
  )

  it.live("runs concurrent calls one after the other; a failed one does not affect the others", () =>
    inDatabase((client) =>
      Effect.gen(function* () {
        yield* sql(client, "BEGIN")
        yield* create(client, newJob(9))
        yield* sql(client, "COMMIT; BEGIN")
        const at = (n: number) => tags(client, newJob(n))
        const secondOfOneId = Effect.exit(create(client, newJob(10, { id: jobId(9) })))
        const [one, broken, three] = yield* Effect.all([at(1), secondOfOneId, at(3)], { concurrency: 3 })
        expect([one, three]).toEqual([["Created"], ["Created"]])
        expect(Exit.isFailure(broken)).toBe(true)
        yield* sql(client, "COMMIT")
        expect((yield* sql(client, `SELECT id FROM "kiln".jobs ORDER BY id`)).rows).toEqual(
          [1, 3, 9].map((n) => ({ id: jobId(n) })),
        )
      }),
    ),
  )
})
