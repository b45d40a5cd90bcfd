import { closeSync, openSync, readdirSync, writeSync } from "node:fs"
import { dirname } from "node:path"
import Sqlite from "better-sqlite3"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { fixtures } from "@kiln/conformance"
import type { StoreInspection } from "@kiln/core/ports"
import { inspectSqlite, sqliteMigrations } from "../src/index.ts"
import { migrate } from "../src/migrations/migrate.ts"
import { migrations } from "../src/migrations/index.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { everyState, storesOf } from "./support/arrangeJobs.ts"
import { pathOf } from "./support/pathOf.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const names = migrations.map(({ name }) => name)

const inspect = (path: string) =>
  Effect.flatMap(inspectSqlite({ path }), (inspection) =>
    inspection === undefined ? Effect.die(new Error("there is no database")) : Effect.succeed(inspection),
  )

/** A migrated database that was then changed by other means. */
const changedBy = (sql: string) =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.scoped(openDatabase({ path }))
    const database = new Sqlite(path)
    database.exec(sql)
    database.close()
    return yield* inspect(path)
  })

describe("sqliteMigrations", () => {
  it.live("are all pending if the file does not exist, and reading the status does not create it", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const status = yield* sqliteMigrations.status({ path })
      expect(status).toEqual({ applied: [], pending: migrations, unknown: [], changed: [] })
      expect(readdirSync(dirname(path))).toEqual([])
    }),
  )

  it.live("are applied once, and then listed with their times", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const before = Date.now()
      expect(yield* sqliteMigrations.apply({ path })).toEqual(names)
      expect(yield* sqliteMigrations.apply({ path })).toEqual([])
      const { applied, pending, unknown } = yield* sqliteMigrations.status({ path })
      expect({ pending, unknown }).toEqual({ pending: [], unknown: [] })
      expect(applied.map(({ name }) => name)).toEqual(names)
      for (const { appliedAt } of applied) expect(appliedAt).toBeGreaterThanOrEqual(before)
    }),
  )

  it.live("that are missing in between are pending, and only they are applied", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const [first, ...rest] = migrations
      if (first === undefined) return expect.unreachable()
      const database = new Sqlite(path)
      database.exec(`CREATE TABLE kiln_migrations (name TEXT NOT NULL PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT;
        ${first.sql} INSERT INTO kiln_migrations VALUES ('${first.name}', 1)`)
      database.close()
      const status = yield* sqliteMigrations.status({ path })
      expect(status).toEqual({ applied: [{ name: first.name, appliedAt: 1 }], pending: rest, unknown: [], changed: [] })
      expect(yield* sqliteMigrations.apply({ path })).toEqual(rest.map(({ name }) => name))
    }),
  )

  it.live("of a newer version are unknown", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const database = yield* openDatabase({ path })
      yield* migrate(database, [
        ...migrations,
        { name: "9999Newer", sql: "CREATE TABLE newer (id INTEGER PRIMARY KEY) STRICT" },
      ])
      expect(yield* sqliteMigrations.status({ path })).toMatchObject({ pending: [], unknown: ["9999Newer"] })
    }),
  )
})

describe("schemaDrift", () => {
  it.live("is empty after the migrations, with jobs in every state, and while another process has the file open", () =>
    Effect.gen(function* () {
      const database = yield* everyState
      database.connection.exec("ANALYZE")
      const path = pathOf(database)
      const inspection = yield* inspect(path)
      expect(yield* inspection.schemaDrift).toEqual([])
      expect(yield* inspection.damage).toEqual([])
    }),
  )

  const drifts: ReadonlyArray<readonly [change: string, drift: ReadonlyArray<object>]> = [
    ["DROP TABLE kiln_paused_kinds", [{ object: "table kiln_paused_kinds", problem: "missing" }]],
    ["DROP INDEX kiln_jobs_ready", [{ object: "index kiln_jobs_ready", problem: "missing" }]],
    ["DROP TRIGGER kiln_jobs_updates", [{ object: "trigger kiln_jobs_updates", problem: "missing" }]],
    ["ALTER TABLE kiln_projects ADD COLUMN owner TEXT", [{ object: "column kiln_projects.owner", problem: "extra" }]],
    [
      "ALTER TABLE kiln_projects DROP COLUMN created_at",
      [{ object: "column kiln_projects.created_at", problem: "missing" }],
    ],
    ["CREATE INDEX mine ON kiln_jobs (fingerprint)", [{ object: "index mine", problem: "extra" }]],
    [
      "CREATE TRIGGER mine AFTER INSERT ON kiln_jobs BEGIN DELETE FROM kiln_purges; END",
      [{ object: "trigger mine", problem: "extra" }],
    ],
    [
      "DROP INDEX kiln_jobs_ready; CREATE INDEX kiln_jobs_ready ON kiln_jobs (lane_id)",
      [{ object: "index kiln_jobs_ready", problem: "changed" }],
    ],
    [
      "DROP TABLE kiln_switches; CREATE TABLE kiln_switches (name TEXT NOT NULL PRIMARY KEY, enabled TEXT NOT NULL) STRICT",
      [{ object: "column kiln_switches.enabled", problem: "changed" }],
    ],
    // A missing constraint, which no column shows.
    [
      "DROP TABLE kiln_switches; CREATE TABLE kiln_switches (name TEXT NOT NULL PRIMARY KEY, enabled INTEGER NOT NULL) STRICT",
      [{ object: "table kiln_switches", problem: "changed" }],
    ],
  ]
  for (const [change, drift] of drifts)
    it.live(`after ${change}`, () =>
      Effect.gen(function* () {
        expect(yield* (yield* changedBy(change)).schemaDrift).toEqual(drift)
      }),
    )

  it.live("ignores an embedding program's tables and the layout of the schema's text", () =>
    Effect.gen(function* () {
      const inspection = yield* changedBy(`
        CREATE TABLE guests (id INTEGER PRIMARY KEY, jobs TEXT); CREATE INDEX guests_jobs ON guests (jobs);
        CREATE VIEW all_guests AS SELECT * FROM guests;
        DROP INDEX kiln_jobs_deadline;
        CREATE INDEX kiln_jobs_deadline
          ON kiln_jobs (deadline_at)   WHERE held = 0 AND deadline_at IS NOT NULL;`)
      expect(yield* inspection.schemaDrift).toEqual([])
    }),
  )

  it.live("attributes additions to a newer version, and still reports missing objects", () =>
    Effect.gen(function* () {
      const inspection = yield* changedBy(`
        INSERT INTO kiln_migrations (name, applied_at) VALUES ('9999Newer', 1);
        ALTER TABLE kiln_jobs ADD COLUMN newer TEXT; CREATE INDEX kiln_jobs_newer ON kiln_jobs (newer);
        DROP INDEX kiln_jobs_ready; ALTER TABLE kiln_projects DROP COLUMN created_at;`)
      expect(yield* inspection.schemaDrift).toEqual([
        { object: "column kiln_projects.created_at", problem: "missing" },
        { object: "index kiln_jobs_ready", problem: "missing" },
      ])
    }),
  )
})

describe("damage", () => {
  it.live("is found in pages", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const inserts = "INSERT INTO kiln_secrets SELECT 's' || value, randomblob(3000) FROM json_each(?)"
      const database = yield* openDatabase({ path })
      database.connection.prepare(inserts).run([JSON.stringify([...Array(200).keys()])])
      const { pages } = database.connection.prepare("SELECT page_count AS pages FROM pragma_page_count").get([]) as {
        readonly pages: number
      }
      database.connection.pragma("wal_checkpoint(TRUNCATE)")
      const file = openSync(path, "r+")
      writeSync(file, new Uint8Array(4_096).fill(0xff), 0, 4_096, (pages - 20) * 4_096)
      closeSync(file)
      expect((yield* (yield* inspect(path)).damage).length).toBeGreaterThan(0)
    }),
  )

  it.live("is a row that refers to a missing row", () =>
    Effect.gen(function* () {
      const inspection = yield* changedBy(
        "PRAGMA foreign_keys = OFF; INSERT INTO kiln_key_secrets VALUES ('hash', 'key_gone', 1, NULL)",
      )
      expect(yield* inspection.damage).toEqual(["row 1 of kiln_key_secrets refers to a missing row of kiln_api_keys"])
    }),
  )
})

describe("named blobs", () => {
  const listed = (inspection: StoreInspection) => Stream.runCollect(inspection.namedBlobs)

  it.live("are those of readable files and of uploads that arrived", () =>
    Effect.gen(function* () {
      const database = yield* everyState
      const inspection = yield* inspect(pathOf(database))
      const blobs = yield* listed(inspection)
      expect(blobs.map(({ id }) => id)).toEqual([
        expect.stringMatching(/^fil_/),
        ...[1, 3, 4].map((n) => fixtures.uploadId(n)),
      ])
      for (const blob of blobs) expect(yield* inspection.isNamed(blob)).toBe(true)
    }),
  )

  it.live("are listed over many pages, each once", () =>
    Effect.gen(function* () {
      const database = yield* openDatabase({ path: yield* temporaryFile })
      const { uploads } = storesOf(database)
      // One page is 500 rows.
      const numbers = [...Array(1_001).keys()].map((n) => n + 1)
      yield* uploads.createUploads(numbers.map((n) => fixtures.newUpload(n)))
      database.connection.exec(
        "UPDATE kiln_uploads SET token = 1, transfers = 1, blob_key = 'uploads/' || seq, bytes = 1, sha256 = 'x'",
      )
      const blobs = yield* listed(yield* inspect(pathOf(database)))
      expect(blobs.map(({ id }) => id)).toEqual(numbers.map((n) => fixtures.uploadId(n)))
    }),
  )

  it.live("are not listed after they were erased", () =>
    Effect.gen(function* () {
      const database = yield* everyState
      const { jobs } = storesOf(database)
      const inspection = yield* inspect(pathOf(database))
      const blobs = yield* listed(inspection)
      yield* jobs.eraseJobs([{ jobId: fixtures.jobId(4), principal: fixtures.ownerOf(fixtures.newJob(4)) }])
      const [file, ...uploads] = yield* Effect.forEach(blobs, inspection.isNamed)
      expect({ file, uploads }).toEqual({ file: false, uploads: [true, true, true] })
    }),
  )
})

it.live("due purges are counted, with the age of the oldest", () =>
  Effect.gen(function* () {
    const database = yield* openDatabase({ path: yield* temporaryFile })
    const inspection = yield* inspect(pathOf(database))
    expect(yield* inspection.duePurges).toEqual({ count: 0, oldestAgeMs: 0 })
    database.connection
      .prepare("INSERT INTO kiln_purges (blob_prefix, recorded_at) VALUES ('jobs/a', ?), ('jobs/b', ?)")
      .run([Date.now() - 10_000, Date.now()])
    const { count, oldestAgeMs } = yield* inspection.duePurges
    expect(count).toBe(2)
    expect(oldestAgeMs).toBeGreaterThanOrEqual(10_000)
    expect(oldestAgeMs).toBeLessThan(60_000)
  }),
)

it.live("a secret is found and never created", () =>
  Effect.gen(function* () {
    const database = yield* openDatabase({ path: yield* temporaryFile })
    const inspection = yield* inspect(pathOf(database))
    expect(yield* inspection.findSecret("installation")).toBe(undefined)
    yield* storesOf(database).secrets.getOrCreate("installation", Uint8Array.of(1, 2))
    expect(yield* inspection.findSecret("installation")).toEqual(Uint8Array.of(1, 2))
  }),
)

it.live("an inspection creates no file, and leaves none behind", () =>
  Effect.gen(function* () {
    const path = yield* temporaryFile
    yield* Effect.scoped(openDatabase({ path }))
    expect(yield* inspectSqlite({ path: `${path}.none` })).toBe(undefined)
    expect(readdirSync(dirname(path))).toEqual(["kiln.db"])
    const inspection = yield* inspect(path)
    expect((yield* inspection.migrations).pending).toEqual([])
  }),
)
