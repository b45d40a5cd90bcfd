import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { fixtures } from "@kiln/conformance"
import { AuditLog, JobStore, KeyDirectory, Switchboard } from "@kiln/core/ports"
import { withClient } from "@kiln/postgres-lab"
import { inspectPostgres, postgresMigrations, PostgresStores } from "../src/index.ts"
import { connectionOptions } from "../src/connection/options.ts"
import { newClient } from "../src/connection/pool.ts"
import { findUpkeep } from "../src/inspect/inspectPostgres.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"

const inspect = (url: string) =>
  Effect.flatMap(inspectPostgres({ url }), (inspection) =>
    inspection === undefined ? Effect.die(new Error("there is no schema")) : Effect.succeed(inspection),
  )

describe("an inspection", () => {
  it.live("counts the queue by kind, mode and state", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* Effect.gen(function* () {
        const jobs = yield* JobStore
        const delayed = { delayMs: 500_000 }
        yield* jobs.createJobs([1, 2, 3].map((n) => fixtures.newJob(n)))
        yield* jobs.createJobs([fixtures.newJob(4, delayed), fixtures.newLiveJob(5, { gate: null, ...delayed })])
        const claim = (leaseDurationMs: number) =>
          jobs.claimJobs({
            runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
            limits: fixtures.noLimits,
            limit: 1,
            leaseDurationMs,
            maxLostWorkers: 3,
          })
        yield* claim(300_000)
        yield* claim(300_000)
      }).pipe(Effect.provide(PostgresStores.layer({ url })))
      yield* runSql(
        url,
        "UPDATE kiln.queue SET claimable_at = kiln.store_time() - 7000 WHERE id = (SELECT min(id) FROM kiln.queue WHERE held)",
      )
      const of = (state: string, mode = "sandbox") => ({ kind: "speech_synthesis", mode, state, count: 1 })
      const groups = yield* (yield* inspect(url)).countQueue
      expect(groups.map(({ oldestMs: _, ...group }) => group)).toEqual([
        of("delayed", "live"),
        of("delayed"),
        of("lapsed"),
        of("ready"),
        of("running"),
      ])
      expect(groups.map(({ oldestMs }) => oldestMs >= 7_000)).toEqual([false, false, true, false, false])
    }),
  )

  it.live("reads the board, the keys and the last change of a kind", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      const expected = yield* Effect.gen(function* () {
        const keys = yield* KeyDirectory
        const board = yield* Switchboard
        const log = yield* AuditLog
        yield* board.setSwitch("ai", true)
        yield* keys.createProject({ id: fixtures.projectId(1), name: "one" })
        yield* keys.createKey(fixtures.newApiKey(1))
        for (const subject of ["/first", "/second"])
          yield* log.append({ actor: "user a", origin: "host b", action: "backup.create", subject, details: { n: 1 } })
        yield* log.append({ actor: "user a", origin: "host b", action: "switch.set", subject: "ai", details: {} })
        return { board: yield* board.readBoard, keys: yield* keys.listKeys }
      }).pipe(Effect.provide(PostgresStores.layer({ url })))
      const inspection = yield* inspect(url)
      expect(yield* inspection.readBoard).toEqual(expected.board)
      expect(yield* inspection.listKeys).toEqual(expected.keys)
      expect(yield* inspection.findLastChange("backup.create")).toMatchObject({ subject: "/second", details: { n: 1 } })
      expect(yield* inspection.findLastChange("backup.restore")).toBe(undefined)
    }),
  )
})

describe("upkeep", () => {
  /** Without the settings of the server of the tests, which does not sync its files. The doctor's client reads arrays as texts. */
  const found = (url: string) =>
    Effect.acquireUseRelease(
      Effect.promise(async () => {
        const client = newClient(connectionOptions({ url }), "kiln doctor")
        await client.connect()
        return client
      }),
      (client) => Effect.promise(() => findUpkeep(client, "kiln", { deadRows: 10, openMinutes: 0, lockSeconds: 0 })),
      (client) => Effect.promise(() => client.end()),
    ).pipe(
      Effect.map((problems) => problems.filter(({ problem }) => !/^(fsync|full_page_writes) is off/.test(problem))),
    )

  it.live("finds nothing in a new schema", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* postgresMigrations.apply({ url })
      expect(yield* found(url)).toEqual([])
    }),
  )

  it.live("finds a table full of dead rows, and one that autovacuum skips", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* postgresMigrations.apply({ url })
      yield* runSql(
        url,
        `ALTER TABLE kiln.secrets SET (autovacuum_enabled = off);
         INSERT INTO kiln.switches SELECT 's' || n, true FROM generate_series(1, 100) AS n;
         UPDATE kiln.switches SET enabled = false;
         ANALYZE kiln.switches`,
      )
      yield* runSql(url, "DELETE FROM kiln.switches; ANALYZE kiln.switches")
      expect(yield* found(url)).toEqual([
        expect.objectContaining({
          problem: 'autovacuum skips the table "kiln".secrets',
          remedy: 'ALTER TABLE "kiln".secrets RESET (autovacuum_enabled)',
        }),
        expect.objectContaining({
          problem: expect.stringMatching(/^\d+ of \d+ rows in "kiln"\.switches are dead$/),
          remedy: 'VACUUM (VERBOSE, ANALYZE) "kiln".switches',
        }),
      ])
    }),
  )

  it.live("names the session that has locked a table", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* postgresMigrations.apply({ url })
      const problems = yield* Effect.promise(() =>
        withClient(url, async (client) => {
          await client.query("SET application_name = 'report'; BEGIN; LOCK TABLE kiln.jobs IN ACCESS EXCLUSIVE MODE")
          return Effect.runPromise(found(url))
        }),
      )
      expect(problems).toContainEqual({
        problem: expect.stringMatching(
          /^the program report \(session \d+, idle in transaction\) has locked "kiln"\.jobs for \d+ s \(AccessExclusiveLock\): steps/,
        ),
        remedy: expect.stringMatching(/^let it end, or end it: SELECT pg_terminate_backend\(\d+\)$/),
        isUrgent: true,
      })
    }),
  )

  it.live("finds a role with which kiln cannot serve, and its remedy is enough", () =>
    Effect.gen(function* () {
      const owner = yield* emptyDatabase
      yield* postgresMigrations.apply({ url: owner })
      const role = `reader_${Math.random().toString(36).slice(2)}`
      yield* Effect.acquireRelease(runSql(owner, `CREATE ROLE ${role} LOGIN PASSWORD 'x'`), () =>
        runSql(owner, `DROP OWNED BY ${role}; DROP ROLE ${role}`),
      )
      yield* runSql(
        owner,
        `ALTER ROLE ${role} SET default_transaction_read_only = on; GRANT USAGE ON SCHEMA kiln TO ${role}`,
      )
      const url = new URL(owner)
      Object.assign(url, { username: role, password: "x" })
      const before = yield* found(url.href)
      expect(before.map(({ problem }) => problem)).toEqual([
        `transactions of the role ${role} are read-only, so kiln cannot serve with it`,
        expect.stringMatching(
          new RegExp(`^the role ${role} lacks rights on "kiln"\\.\\w+ and \\d+ more, so kiln cannot serve with it$`),
        ),
      ])
      for (const { remedy } of before)
        yield* runSql(
          owner,
          remedy.replace(/^as the owner of the schema: /, "").replace(/[,;] or set DATABASE_URL.*/, ""),
        )
      expect(yield* found(url.href)).toEqual([])
    }),
  )

  it.live.each([
    { whose: "the database DB", place: "DATABASE DB" },
    { whose: "the role USER in the database DB", place: "ROLE USER IN DATABASE DB" },
  ])(
    "finds that transactions of $whose are read-only, and its remedy works in a session that is, too",
    ({ place, whose }) =>
      Effect.gen(function* () {
        const url = yield* emptyDatabase
        yield* postgresMigrations.apply({ url })
        const { pathname, username } = new URL(url)
        const named = (text: string) => text.replace("USER", username).replace("DB", pathname.slice(1))
        yield* runSql(url, `ALTER ${named(place)} SET default_transaction_read_only = on`)
        const before = yield* found(url)
        expect(before.map(({ problem }) => problem)).toEqual([
          `transactions of ${named(whose)} are read-only, so kiln cannot serve with it`,
        ])
        for (const { remedy } of before)
          yield* Effect.promise(() =>
            withClient(url, async (client) => {
              for (const statement of remedy.split("; ")) await client.query(statement)
            }),
          )
        expect(yield* found(url)).toEqual([])
      }),
  )

  it.live("finds the program that keeps a transaction open", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* postgresMigrations.apply({ url })
      const problems = yield* Effect.promise(() =>
        withClient(url, async (client) => {
          await client.query("SET application_name = 'report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
          return Effect.runPromise(found(url))
        }),
      )
      expect(problems).toEqual([
        {
          problem: "the program report has kept a transaction open for 0 minutes, so no dead row can be removed",
          remedy: expect.stringMatching(
            /^SELECT pg_terminate_backend\(\d+\), and set idle_in_transaction_session_timeout/,
          ),
          isUrgent: false,
        },
      ])
    }),
  )
})
