import { createHash } from "node:crypto"
import Sqlite from "better-sqlite3"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { CallerTransactions } from "@kiln/core/ports"
import { arrangeEveryState, callEveryVerb, fixtures } from "@kiln/conformance"
import { copyTables, inspectSqlite, openCopySource, SqliteStores, sqliteMigrations } from "../src/index.ts"
import { migrations } from "../src/migrations/index.ts"
import { withoutPrefix } from "../src/Naming.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { onDatabase, storesOf } from "./support/arrangeJobs.ts"
import { beginKysely, beginOn, callerConnection, callerKysely } from "./support/callers.ts"
import { makeEmptyOldDatabase } from "./support/oldDatabase.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { jobId, newJob, ownerOf } = fixtures

/** Its tables, indexes and triggers, but for SQLite's own. */
const namesIn = (path: string): ReadonlyArray<string> => {
  const database = new Sqlite(path, { readonly: true })
  const rows = database.prepare("SELECT name FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").all([])
  database.close()
  return rows.map((row) => (row as { readonly name: string }).name)
}

const emptyOldFile = Effect.map(temporaryFile, (path) => {
  makeEmptyOldDatabase(path, 1)
  return path
})

/** Another program's file: its tables, indexes, triggers and views have the names that kiln's had, and there is something in them. */
const theirs = `
  CREATE TABLE jobs (id INTEGER PRIMARY KEY, title TEXT NOT NULL);
  CREATE INDEX jobs_ready ON jobs (title);
  CREATE TRIGGER jobs_begin_queued BEFORE DELETE ON jobs BEGIN SELECT RAISE(ABORT, 'theirs'); END;
  CREATE TABLE projects (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
  CREATE UNIQUE INDEX prices_active ON projects (name);
  CREATE TABLE files (id INTEGER PRIMARY KEY, job_id INTEGER REFERENCES jobs (id));
  CREATE TRIGGER jobs_charge AFTER UPDATE ON files BEGIN SELECT RAISE(ABORT, 'theirs'); END;
  CREATE VIEW workers AS SELECT jobs.id, name FROM jobs, projects;
  INSERT INTO jobs VALUES (1, 'cook'), (2, 'waiter');
  INSERT INTO projects VALUES (1, 'kitchen');
  INSERT INTO files VALUES (1, 1);
`
const theirNames = ["files", "jobs", "jobs_begin_queued", "jobs_charge", "jobs_ready", "prices_active", "projects"]

const readTheirs = (path: string): unknown => {
  const database = new Sqlite(path, { readonly: true })
  const all = (sql: string) => database.prepare(sql).all([])
  const found = {
    schema: all("SELECT * FROM sqlite_schema WHERE name NOT LIKE '%kiln\\_%' ESCAPE '\\' ORDER BY name").map((row) => ({
      ...(row as object),
      rootpage: null,
    })),
    rows: ["jobs", "projects", "files", "workers"].map((table) => all(`SELECT * FROM ${table}`)),
  }
  database.close()
  return found
}

const theirFile = Effect.map(temporaryFile, (path) => {
  const database = new Sqlite(path)
  database.exec(theirs)
  database.close()
  return path
})

const inspect = (path: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const inspection = yield* inspectSqlite({ path })
      if (inspection === undefined) return expect.unreachable()
      return { drift: yield* inspection.schemaDrift, damage: yield* inspection.damage }
    }),
  )

const everythingIn = (path: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const source = yield* openCopySource(path)
      if (source === undefined) return expect.unreachable()
      return yield* Effect.forEach(copyTables, (table) =>
        Effect.gen(function* () {
          const rows: Array<unknown> = []
          yield* source.forEachPage(table, (page) => Effect.sync(() => void rows.push(...page)))
          expect(yield* source.count(table)).toBe(rows.length)
          return { table, rows }
        }),
      )
    }),
  )

const withEveryState = (path: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const database = yield* openDatabase({ path })
      yield* onDatabase(database)(arrangeEveryState)
      yield* onDatabase(database)(callEveryVerb)
    }),
  )

describe("names", () => {
  it.live("of all that kiln makes have its prefix", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* Effect.scoped(openDatabase({ path }))
      const names = namesIn(path)
      expect(names.length).toBeGreaterThan(50)
      expect(names.filter((name) => !name.startsWith("kiln_"))).toEqual([])
    }),
  )

  it.live("stay as they were in a file of the first version, also for what is added later", () =>
    Effect.gen(function* () {
      const path = yield* emptyOldFile
      yield* withEveryState(path)
      const names = namesIn(path)
      expect(names.filter((name) => name.startsWith("kiln_"))).toEqual(["kiln_migrations"])
      const fresh = yield* temporaryFile
      yield* Effect.scoped(openDatabase({ path: fresh }))
      const prefixed = names.filter((name) => name !== "kiln_migrations").map((name) => `kiln_${name}`)
      expect([...prefixed, "kiln_migrations"].sort()).toEqual(namesIn(fresh))
    }),
  )

  it.live("stay also where the program has a table that is called as one of kiln's is in other files", () =>
    Effect.gen(function* () {
      const path = yield* emptyOldFile
      const connection = yield* callerConnection(path)
      connection.exec("CREATE TABLE kiln_jobs (mine TEXT)")
      const { jobs } = storesOf(yield* openDatabase({ path }))
      expect(yield* jobs.createJobs([newJob(1)])).toMatchObject([{ _tag: "Created" }])
      expect(connection.prepare("SELECT id FROM jobs").all([])).toEqual([{ id: jobId(1) }])
    }),
  )
})

describe("a program's own file, with tables of names that kiln had", () => {
  it.live("is used beside them, whatever is done, and they stay as they are", () =>
    Effect.gen(function* () {
      const path = yield* theirFile
      const before = readTheirs(path)
      expect(namesIn(path)).toEqual([...theirNames, "workers"])
      yield* withEveryState(path)
      expect(readTheirs(path)).toEqual(before)
      expect(yield* inspect(path)).toEqual({ drift: [], damage: [] })
      const jobs = (yield* everythingIn(path)).find(({ table }) => table === "jobs")
      expect(jobs?.rows.length).toBeGreaterThan(8)
    }),
  )

  it.live("takes a row of theirs and a job of kiln's in one transaction", () =>
    Effect.gen(function* () {
      const path = yield* theirFile
      const services = yield* Layer.build(SqliteStores.layer({ path }))
      const { createJobs } = yield* Effect.provideContext(CallerTransactions, services)
      const connection = yield* callerConnection(path)
      const kysely = yield* callerKysely(path)
      const onHandle = beginOn(connection)
      connection.exec("INSERT INTO jobs VALUES (3, 'baker')")
      yield* createJobs(onHandle.transaction, [newJob(1)])
      yield* Effect.promise(onHandle.commit)
      const onKysely = yield* Effect.promise(() => beginKysely(kysely))
      yield* createJobs(onKysely.transaction, [newJob(2)])
      yield* Effect.promise(onKysely.commit)
      const { jobs } = storesOf(yield* openDatabase({ path }))
      const found = yield* jobs.findJobs([1, 2].map((n) => ({ jobId: jobId(n), principal: ownerOf(newJob(n)) })))
      expect(found.map((job) => job?.id)).toEqual([jobId(1), jobId(2)])
      expect(connection.prepare("SELECT id FROM jobs").all([])).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }])
    }),
  )

  it.live("is still known for what it is when kiln's part of it is damaged", () =>
    Effect.gen(function* () {
      const path = yield* theirFile
      yield* Effect.scoped(openDatabase({ path }))
      const connection = yield* callerConnection(path)
      connection.exec("DROP TABLE kiln_files; DROP TABLE kiln_purges")
      expect((yield* inspect(path)).drift).toContainEqual({ object: "table kiln_purges", problem: "missing" })
    }),
  )
})

describe("a file with names of either kind", () => {
  // In virtual time, so that both hold the same to the millisecond.
  it.effect("is copied to the same rows, and is as it should be", () =>
    Effect.gen(function* () {
      const copies: Array<unknown> = []
      for (const file of [temporaryFile, emptyOldFile]) {
        const path = yield* file
        yield* withEveryState(path)
        expect(yield* inspect(path)).toEqual({ drift: [], damage: [] })
        copies.push(yield* everythingIn(path))
      }
      expect(copies[1]).toEqual(copies[0])
    }),
  )

  it.live("is told what is pending in its own names", () =>
    Effect.gen(function* () {
      const pendingIn = (path: string) =>
        Effect.map(sqliteMigrations.status({ path }), ({ pending }) => pending.map(({ sql }) => sql))
      expect(yield* pendingIn(yield* theirFile)).toEqual(migrations.map(({ sql }) => sql))
      const [first] = yield* pendingIn(yield* emptyOldFile)
      expect(first).toContain("ALTER TABLE jobs ADD COLUMN")
      expect(first).not.toContain("kiln_")
    }),
  )
})

it("what was released is applied to files without the prefix to the letter", () => {
  const sha256 = (text: string) => createHash("sha256").update(text).digest("hex")
  expect(migrations.slice(0, 4).map(({ name, sql }) => [name, sha256(withoutPrefix(sql))])).toEqual([
    ["0001Initial", "55ca2e4da0dc1185041a576dc6c978c9c36d72ac2e0feec2fa06cca51198ec4e"],
    ["0002KindVersions", "fc82328f216a920c75203c273bdfbd1acf8da9739b70f8ccb39edff5eeabb7ee"],
    ["0003LedgerAndStandings", "c389385bcbce273c0b07df37ad49b32211a20920c66a62e20ba5f76eaaf5d9df"],
    ["0004OperatingVerbs", "49912257034c52c41416899ba0253d7913d428d5fee13ced10517b044d7bd647"],
  ])
})
