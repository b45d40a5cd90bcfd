import Sqlite from "better-sqlite3"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { CallerTransactions } from "@kiln/core/ports"
import { arrangeEveryState, callEveryVerb, fixtures } from "@kiln/conformance"
import { copyTables, inspectSqlite, openCopySource, SqliteStores } from "../src/index.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { onDatabase, storesOf } from "./support/arrangeJobs.ts"
import { beginKysely, beginOn, callerConnection, callerKysely } from "./support/callers.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const { jobId, newJob, ownerOf } = fixtures

/** The tables, indexes and triggers of a file, except SQLite's own. */
const namesIn = (path: string): ReadonlyArray<string> => {
  const database = new Sqlite(path, { readonly: true })
  const rows = database.prepare("SELECT name FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").all([])
  database.close()
  return rows.map((row) => (row as { readonly name: string }).name)
}

/** Another program's file, with rows. Its tables, indexes, triggers and views have kiln's names without the prefix. */
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
  it.live("of all of kiln's objects have its prefix", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* Effect.scoped(openDatabase({ path }))
      const names = namesIn(path)
      expect(names.length).toBeGreaterThan(50)
      expect(names.filter((name) => !name.startsWith("kiln_"))).toEqual([])
    }),
  )
})

describe("a program's own file, whose tables have kiln's names without the prefix", () => {
  it.live("is shared by every verb, and the program's tables do not change", () =>
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

  it.live("takes a row of the program and a job in one transaction", () =>
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

  it.live("is recognized although kiln's part of it is damaged", () =>
    Effect.gen(function* () {
      const path = yield* theirFile
      yield* Effect.scoped(openDatabase({ path }))
      const connection = yield* callerConnection(path)
      connection.exec("DROP TABLE kiln_files; DROP TABLE kiln_purges")
      expect((yield* inspect(path)).drift).toContainEqual({ object: "table kiln_purges", problem: "missing" })
    }),
  )
})
