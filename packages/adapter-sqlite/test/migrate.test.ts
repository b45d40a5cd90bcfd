import { mkdirSync, readdirSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import Sqlite from "better-sqlite3"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { JobStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { migrate } from "../src/migrations/migrate.ts"
import { migrations } from "../src/migrations/index.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { child } from "./support/childProcess.ts"
import { temporaryDirectory, temporaryFile } from "./support/temporaryDirectory.ts"

const holdLock = new URL("./support/holdLock.ts", import.meta.url)
const hangInMigration = new URL("./support/hangInMigration.ts", import.meta.url)
const openStore = new URL("./support/openStore.ts", import.meta.url)

const bundled = migrations.map(({ name }) => ({ name }))

const tablesOf = (path: string): ReadonlyArray<unknown> => {
  const database = new Sqlite(path, { readonly: true })
  const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all([])
  database.close()
  return tables
}

const appliedTo = (path: string): ReadonlyArray<unknown> => {
  const database = new Sqlite(path, { readonly: true })
  const applied = database.prepare("SELECT name FROM kiln_migrations ORDER BY name").all([])
  database.close()
  return applied
}

describe("openDatabase", () => {
  it.live("creates directory, file and log, readable by their owner only", () =>
    Effect.gen(function* () {
      const path = join(yield* temporaryDirectory, "new", "deep", "kiln.db")
      yield* openDatabase({ path })
      expect(readdirSync(dirname(path)).sort()).toEqual(["kiln.db", "kiln.db-shm", "kiln.db-wal"])
      for (const name of readdirSync(dirname(path)))
        expect(statSync(join(dirname(path), name)).mode & 0o777).toBe(0o600)
      for (const directory of [dirname(path), dirname(dirname(path))])
        expect(statSync(directory).mode & 0o777).toBe(0o700)
    }),
  )

  it.live("commits reach the disk before they are acknowledged, and deleted content is overwritten", () =>
    Effect.gen(function* () {
      const { connection } = yield* openDatabase({ path: yield* temporaryFile })
      const pragma = (name: string) => connection.pragma(name, { simple: true })
      expect(["journal_mode", "synchronous", "foreign_keys", "secure_delete"].map(pragma)).toEqual(["wal", 2, 1, 1])
    }),
  )

  it.live("a path that cannot be a file is StoreUnavailable", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      mkdirSync(path)
      const error = yield* Effect.flip(openDatabase({ path }))
      expect(error._tag).toBe("StoreUnavailable")
    }),
  )

  it.live("a file that is not a database is StoreUnavailable", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(openDatabase({ path: import.meta.filename }))
      expect(error).toMatchObject({ _tag: "StoreUnavailable", cause: { code: "SQLITE_NOTADB" } })
    }),
  )
})

describe("migrate", () => {
  it.live("several processes that start at once: one migrates, all work", () =>
    Effect.gen(function* () {
      for (let round = 0; round < 3; round++) {
        const path = yield* temporaryFile
        const children = yield* Effect.forEach([1, 2, 3], () => child(openStore, path))
        expect(yield* Effect.promise(() => Promise.all(children.map(({ ended }) => ended)))).toEqual([0, 0, 0])
        expect(appliedTo(path)).toEqual(bundled)
      }
    }),
  )

  it.live("killed half way, it leaves nothing behind and no lock", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const migrating = yield* child(hangInMigration, path)
      expect(yield* Effect.promise(migrating.line)).toBe("migrating")
      migrating.process.kill("SIGKILL")
      expect(yield* Effect.promise(() => migrating.ended)).toBe("SIGKILL")
      const store = yield* Effect.provide(
        Effect.flatMap(JobStore, ({ createJobs }) => createJobs([fixtures.newJob(1)])),
        SqliteStores.layer({ path }),
      )
      expect(store).toMatchObject([{ _tag: "Created" }])
      expect(appliedTo(path)).toEqual(bundled)
      expect(tablesOf(path)).not.toContainEqual({ name: "half_way" })
    }),
  )

  it.live("a migration that fails is rolled back completely, together with those before it", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const database = yield* openDatabase({ path })
      const before = tablesOf(path)
      const exit = yield* Effect.exit(
        migrate(database, [
          ...migrations,
          { name: "9998Fine", sql: "CREATE TABLE fine (id INTEGER PRIMARY KEY) STRICT" },
          { name: "9999Broken", sql: "CREATE TABLE half (id INTEGER PRIMARY KEY) STRICT; CREATE TABLE kiln_jobs (id)" },
        ]),
      )
      expect(Exit.isFailure(exit)).toBe(true)
      expect(tablesOf(path)).toEqual(before)
      expect(appliedTo(path)).toEqual(bundled)
    }),
  )

  it.live("runs each migration once, in order, and beside those of a newer version", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const database = yield* openDatabase({ path })
      const newer = [
        ...migrations,
        { name: "9998First", sql: "CREATE TABLE first (id INTEGER PRIMARY KEY) STRICT" },
        { name: "9999Second", sql: "INSERT INTO first (id) VALUES (1)" },
      ]
      yield* migrate(database, newer)
      yield* migrate(database, newer)
      expect(database.connection.prepare("SELECT id FROM first").all([])).toEqual([{ id: 1 }])
      // Both are unknown to this version, which starts anyway.
      yield* Effect.scoped(openDatabase({ path }))
      expect(appliedTo(path)).toEqual([...bundled, { name: "9998First" }, { name: "9999Second" }])
    }),
  )

  it.live("a start with nothing to migrate does not wait for a writer", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* Effect.scoped(openDatabase({ path }))
      const other = yield* child(holdLock, path, "60000")
      expect(yield* Effect.promise(other.line)).toBe("held")
      yield* Effect.scoped(openDatabase({ path, retryForMs: 50 }))
      expect(other.process.exitCode).toBe(null)
    }),
  )
})
