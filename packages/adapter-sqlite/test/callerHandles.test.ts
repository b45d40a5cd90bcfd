import { symlinkSync } from "node:fs"
import { describe, expect, it, vi } from "@effect/vitest"
import Sqlite from "better-sqlite3"
import { Cause, type Context, Effect, Exit, Layer, type Scope } from "effect"
import {
  DummyDriver,
  Kysely,
  type KyselyPlugin,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from "kysely"
import { StoreUnavailable } from "@kiln/core/domain"
import { CallerTransactions, type CreateOutcome, JobStore, type NewJob } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { beginKysely, beginOn, type Begun, callerConnection, callerKysely } from "./support/callers.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { jobId, newJob, ownerOf } = fixtures

const arrange = Effect.gen(function* () {
  const path = yield* temporaryFile
  const services: Context.Context<JobStore | CallerTransactions> = yield* Layer.build(SqliteStores.layer({ path }))
  const { createJobs } = yield* Effect.provideContext(CallerTransactions, services)
  const store = yield* Effect.provideContext(JobStore, services)
  const connection = yield* callerConnection(path)
  connection.exec("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
  const exists = (n: number) =>
    Effect.map(store.findJobs([{ jobId: jobId(n), principal: ownerOf(newJob(n)) }]), ([job]) => job !== undefined)
  return { path, createJobs, store, connection, exists }
})

const tagsOf = (outcomes: ReadonlyArray<CreateOutcome>) => outcomes.map(({ _tag }) => _tag)

const defectOf = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.map(Effect.exit(effect), (exit) =>
    Exit.isFailure(exit) && Cause.hasDies(exit.cause) ? Cause.squash(exit.cause) : undefined,
  )

const begunKysely = (path: string) =>
  Effect.flatMap(callerKysely(path), (kysely) => Effect.promise(() => beginKysely(kysely)))

const handles: ReadonlyArray<{
  readonly name: string
  readonly begin: (path: string) => Effect.Effect<Begun<unknown>, never, Scope.Scope>
}> = [
  { name: "a better-sqlite3 handle", begin: (path) => Effect.map(callerConnection(path), (handle) => beginOn(handle)) },
  {
    name: "a Kysely transaction",
    begin: begunKysely,
  },
]

describe.each(handles)("$name", ({ begin }) => {
  it.live("on another file is rejected; one on the same file by another path is accepted", () =>
    Effect.gen(function* () {
      const { createJobs, exists, path } = yield* arrange
      const other = yield* temporaryFile
      for (const elsewhere of [other, ":memory:"]) {
        const { rollback, transaction } = yield* begin(elsewhere)
        const defect = yield* defectOf(createJobs(transaction, [newJob(1)]))
        expect(defect).toBeInstanceOf(TypeError)
        expect(String(defect)).toContain("on the database file of the store")
        yield* Effect.promise(rollback)
      }
      const link = `${path}.link`
      symlinkSync(path, link)
      const { commit, transaction } = yield* begin(link)
      expect(tagsOf(yield* createJobs(transaction, [newJob(2)]))).toEqual(["Created"])
      yield* Effect.promise(commit)
      expect([yield* exists(1), yield* exists(2)]).toEqual([false, true])
    }),
  )

  it.live("that began before another commit cannot write: the call fails, and the transaction continues", () =>
    Effect.gen(function* () {
      const { connection, createJobs, exists, path, store } = yield* arrange
      connection.exec("INSERT INTO orders VALUES (1)")
      const { rollback, transaction } = yield* begin(path)
      // The first read takes the snapshot.
      const stale = yield* createJobs(transaction, [newJob(1, { retryOf: jobId(9) })])
      expect(tagsOf(stale)).toEqual(["NotRetryable"])
      yield* store.createJobs([newJob(2)])
      expect(yield* Effect.flip(createJobs(transaction, [newJob(1)]))).toBeInstanceOf(StoreUnavailable)
      expect(tagsOf(yield* createJobs(transaction, [newJob(1, { retryOf: jobId(9) })]))).toEqual(["NotRetryable"])
      yield* Effect.promise(rollback)
      expect(yield* exists(1)).toBe(false)
    }),
  )

  it.live("keeps its writes from before a call that failed, and none of that call", () =>
    Effect.gen(function* () {
      const { connection, createJobs, exists, path } = yield* arrange
      connection.exec(
        `CREATE TRIGGER broken BEFORE INSERT ON kiln_jobs WHEN NEW.id = '${jobId(3)}' BEGIN SELECT RAISE(ABORT, 'broken'); END`,
      )
      const { commit, transaction } = yield* begin(path)
      yield* createJobs(transaction, [newJob(1)])
      expect(String(yield* defectOf(createJobs(transaction, [newJob(2), newJob(3)])))).toContain("broken")
      expect(tagsOf(yield* createJobs(transaction, [newJob(4)]))).toEqual(["Created"])
      yield* Effect.promise(commit)
      expect(yield* Effect.forEach([1, 2, 3, 4], exists)).toEqual([true, false, false, true])
    }),
  )
})

describe("a better-sqlite3 handle", () => {
  it.live("without a transaction is rejected, and nothing is written", () =>
    Effect.gen(function* () {
      const { connection, createJobs, exists } = yield* arrange
      expect(String(yield* defectOf(createJobs(connection, [newJob(1)])))).toContain("not in a transaction")
      expect(yield* exists(1)).toBe(false)
    }),
  )

  it.live("may return integers as bigints, and keeps doing so", () =>
    Effect.gen(function* () {
      const { createJobs, path } = yield* arrange
      const connection = yield* callerConnection(path)
      Reflect.apply(Reflect.get(connection, "defaultSafeIntegers"), connection, [true])
      const { commit, transaction } = beginOn(connection)
      const [outcome] = yield* createJobs(transaction, [newJob(1, { queueCap: 3 })])
      expect(outcome).toMatchObject({ _tag: "Created", job: { attempts: 0 } })
      const replayed = yield* createJobs(transaction, [newJob(1)])
      expect(replayed).toEqual([{ _tag: "Replayed", job: outcome?._tag === "Created" ? outcome.job : undefined }])
      yield* Effect.promise(commit)
      expect(connection.prepare("SELECT 1 AS one").get([])).toEqual({ one: 1n })
    }),
  )

  it.live("prepares each statement once", () =>
    Effect.gen(function* () {
      const { connection, createJobs } = yield* arrange
      const prepare = vi.spyOn(Sqlite.prototype, "prepare")
      const counts: Array<number> = []
      for (const n of [1, 2, 3]) {
        const { commit, transaction } = beginOn(connection)
        yield* createJobs(transaction, [newJob(n, { queueCap: 10 })])
        yield* Effect.promise(commit)
        counts.push(prepare.mock.calls.length)
      }
      prepare.mockRestore()
      expect(counts[0]).toBeGreaterThan(3)
      expect(counts[1]).toBe(counts[2])
    }),
  )
})

/** A transaction of another dialect than SQLite's. `sent` counts its queries. */
const onPostgres = () => {
  const sent = vi.fn<() => Promise<{ readonly rows: [] }>>(() => Promise.resolve({ rows: [] }))
  const kysely = new Kysely<object>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () =>
        Object.assign(new DummyDriver(), {
          acquireConnection: () =>
            Promise.resolve({ executeQuery: sent, streamQuery: () => (async function* () {})() }),
        }),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })
  return { kysely, sent }
}

const forgetful: KyselyPlugin = {
  transformQuery: ({ node }) => node,
  transformResult: ({ result }) => Promise.resolve({ ...result, rows: [] }),
}

describe("a Kysely transaction", () => {
  it.live("of another database is rejected before anything is sent, and so is a handle without a transaction", () =>
    Effect.gen(function* () {
      const { createJobs, path } = yield* arrange
      const { kysely, sent } = onPostgres()
      const defect = yield* Effect.promise(() =>
        kysely
          .transaction()
          .execute((transaction) => Effect.runPromise(defectOf(createJobs(transaction, [newJob(1)])))),
      )
      expect(String(defect)).toContain("must use a SQLite dialect")
      expect(sent).not.toHaveBeenCalled()
      expect(yield* defectOf(createJobs(yield* callerKysely(path), [newJob(1)]))).toBeInstanceOf(TypeError)
    }),
  )

  it.live("that has ended is rejected", () =>
    Effect.gen(function* () {
      const { createJobs, exists, path } = yield* arrange
      const kysely = yield* callerKysely(path)
      for (const end of ["commit", "rollback"] as const) {
        const begun = yield* Effect.promise(() => beginKysely(kysely))
        yield* Effect.promise(begun[end])
        const defect = yield* defectOf(createJobs(begun.transaction, [newJob(1)]))
        expect(defect).toBeInstanceOf(TypeError)
        expect(String(defect)).toContain("committed or rolled back")
      }
      expect(yield* exists(1)).toBe(false)
    }),
  )

  it.live("may be a controlled one, and may have plugins that change results", () =>
    Effect.gen(function* () {
      const { createJobs, path, store } = yield* arrange
      const kysely = (yield* callerKysely(path)).withPlugin(forgetful)
      const transaction = yield* Effect.promise(() => kysely.startTransaction().execute())
      const [outcome] = yield* createJobs(transaction, [newJob(1, { queueCap: 2 })])
      yield* Effect.promise(() => transaction.commit().execute())
      const [job] = yield* store.findJobs([{ jobId: jobId(1), principal: ownerOf(newJob(1)) }])
      expect(outcome).toEqual({ _tag: "Created", job })
    }),
  )

  it.live("takes concurrent calls through another of its handles: a failed call rolls back nothing else", () =>
    Effect.gen(function* () {
      const { connection, createJobs, exists, path } = yield* arrange
      connection.exec(
        `CREATE TRIGGER broken BEFORE INSERT ON kiln_jobs WHEN NEW.id = '${jobId(2)}' BEGIN SELECT RAISE(ABORT, 'broken'); END`,
      )
      const { commit, transaction } = yield* begunKysely(path)
      const other = transaction.withSchema("x")
      for (const [whole, broken, third] of [
        [transaction, other, transaction],
        [other, transaction, other],
      ]) {
        const n = whole === other ? 10 : 20
        const exits = yield* Effect.all(
          [
            createJobs(whole, [newJob(n + 1)]),
            createJobs(broken, [newJob(n + 2), newJob(2)]),
            createJobs(third, [newJob(n + 3)]),
          ].map(Effect.exit),
          { concurrency: 3 },
        )
        expect(exits.map(Exit.isSuccess)).toEqual([true, false, true])
      }
      yield* Effect.promise(commit)
      expect(yield* Effect.forEach([11, 12, 13, 21, 22, 23], exists)).toEqual([true, false, true, true, false, true])
    }),
  )

  it.live("runs concurrent calls one after the other, each with its own outcome", () =>
    Effect.gen(function* () {
      const { createJobs, exists, path } = yield* arrange
      const { commit, transaction } = yield* begunKysely(path)
      const repeat = (n: number): NewJob => newJob(n, { idempotencyKey: "same", fingerprint: fixtures.digest(1) })
      const outcomes = yield* Effect.forEach(
        [1, 2, 3, 4],
        (n) => createJobs(transaction, [repeat(n), newJob(10 + n)]),
        {
          concurrency: "unbounded",
        },
      )
      yield* Effect.promise(commit)
      expect(outcomes.map(tagsOf)).toEqual([["Created", "Created"], ...[2, 3, 4].map(() => ["Replayed", "Created"])])
      expect(yield* Effect.forEach([1, 2, 11, 12, 13, 14], exists)).toEqual([true, false, true, true, true, true])
    }),
  )
})
