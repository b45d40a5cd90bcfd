import { expect, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Scope } from "effect"
import { JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { openDatabase } from "../src/openDatabase.ts"
import { makeSqliteJobStore } from "../src/jobs/SqliteJobStore.ts"
import { SqliteStores } from "../src/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const principal = fixtures.ownerOf(fixtures.newJob(1))
const large = (n: number) => fixtures.newJob(n, { request: { input: "x".repeat(50_000) } })

it.live("a full disk: StoreUnavailable, nothing half written, and it goes on when there is room", () =>
  Effect.gen(function* () {
    const database = yield* openDatabase({ path: yield* temporaryFile })
    const store = makeSqliteJobStore(database)
    const pages = database.connection.pragma("page_count", { simple: true })
    database.connection.pragma(`max_page_count = ${Number(pages) + 20}`)
    const error = yield* Effect.flip(store.createJobs([large(1), large(2), large(3)]))
    expect(error).toMatchObject({
      _tag: "StoreUnavailable",
      operation: "JobStore.createJobs",
      cause: { code: "SQLITE_FULL" },
    })
    expect(yield* store.findJobs([1, 2, 3].map((n) => ({ jobId: fixtures.jobId(n), principal })))).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    database.connection.pragma("max_page_count = 1000000")
    expect((yield* store.createJobs([large(1), large(2), large(3)])).map(({ _tag }) => _tag)).toEqual([
      "Created",
      "Created",
      "Created",
    ])
  }),
)

it.live("a read-only file: writing is StoreUnavailable, reading works", () =>
  Effect.gen(function* () {
    const database = yield* openDatabase({ path: yield* temporaryFile })
    const store = makeSqliteJobStore(database)
    yield* store.createJobs([fixtures.newJob(1)])
    database.connection.pragma("query_only = ON")
    const error = yield* Effect.flip(store.createJobs([fixtures.newJob(2)]))
    expect(error).toMatchObject({ _tag: "StoreUnavailable", cause: { code: "SQLITE_READONLY" } })
    expect((yield* store.findJobs([{ jobId: fixtures.jobId(1), principal }]))[0]?.status).toBe("queued")
  }),
)

it.live("after its scope is closed, every verb is StoreUnavailable", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const context = yield* Layer.build(SqliteStores.layer({ path: yield* temporaryFile })).pipe(Scope.provide(scope))
    const store = yield* Effect.provideContext(JobStore, context)
    yield* Scope.close(scope, Exit.void)
    for (const verb of [Effect.asVoid(store.createJobs([fixtures.newJob(1)])), Effect.asVoid(store.findJobs([]))])
      expect(yield* Effect.flip(verb)).toMatchObject({ _tag: "StoreUnavailable" })
  }),
)

it.live("a broken invariant is a defect, and of its batch nothing was written", () =>
  Effect.gen(function* () {
    const store = makeSqliteJobStore(yield* openDatabase({ path: yield* temporaryFile }))
    yield* store.createJobs([fixtures.newJob(1)])
    const exit = yield* Effect.exit(
      store.createJobs([fixtures.newJob(2), fixtures.newJob(1, { idempotencyKey: "other" })]),
    )
    expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
    expect(yield* store.findJobs([{ jobId: fixtures.jobId(2), principal }])).toEqual([undefined])
    // The connection can run the next transaction.
    expect(yield* store.createJobs([fixtures.newJob(2)])).toMatchObject([{ _tag: "Created" }])
  }),
)
