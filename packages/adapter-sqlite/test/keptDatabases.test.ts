import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { builtInKinds, createEngine, SchemaMismatch } from "@kiln/core"
import { finishKeptJobs, readKeptDatabase } from "@kiln/conformance"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs } from "@kiln/testing"
import { inspectSqlite, sqliteMigrations, sqliteStore } from "../src/index.ts"
import { migrations } from "../src/migrations/index.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

/** Databases of earlier schemas, which this version migrates. `scripts/keepDatabases.ts` makes the next one. */
const keptStates = ["2026-11-26", "2026-11-26-b", "2026-11-27", "2026-11-27-b"]
/** Databases whose first migration had another text, before digests of texts were kept. */
const otherTexts = ["2026-11-22", "2026-11-24", "2026-11-25-a", "2026-11-25-b"]

const restore = (name: string) =>
  Effect.map(temporaryFile, (path) => {
    const database = new DatabaseSync(path, { enableForeignKeyConstraints: false })
    database.exec("PRAGMA synchronous = OFF; BEGIN")
    database.exec(readKeptDatabase(new URL(`kept/${name}.sql.gz`, import.meta.url), Date.now()))
    database.exec("COMMIT")
    database.close()
    return path
  })

const everythingIn = (path: string) => {
  const database = new DatabaseSync(path, { readOnly: true })
  const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all()
  const rows = tables.map(({ name }) => [name, database.prepare(`SELECT * FROM ${String(name)}`).all()])
  database.close()
  return rows
}

const engineOn = (path: string) =>
  createEngine({
    store: sqliteStore({ path, allowCopies: true }),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders(), live: sandboxProviders() },
    log: false,
  })

describe("a kept database", () => {
  for (const name of keptStates)
    it.live(`of ${name} is migrated, and all its jobs end`, () =>
      Effect.gen(function* () {
        const path = yield* restore(name)
        const ended = yield* Effect.promise(async () => {
          await using engine = await engineOn(path)
          return await finishKeptJobs(engine, Date.now())
        })
        expect(ended).toMatchObject({ failed: 2 })
        expect(yield* sqliteMigrations.status({ path })).toMatchObject({ pending: [], unknown: [], changed: [] })
        const inspection = yield* inspectSqlite({ path })
        expect(yield* inspection?.schemaDrift ?? Effect.succeed("no database")).toEqual([])
        expect(yield* inspection?.damage ?? Effect.succeed("no database")).toEqual([])
      }),
    )

  for (const name of otherTexts)
    it.live(`of ${name} is refused with the way out, and stays as it is`, () =>
      Effect.gen(function* () {
        const path = yield* restore(name)
        const before = everythingIn(path)
        const error: unknown = yield* Effect.promise(() => engineOn(path).catch((reason: unknown) => reason))
        expect(error).toMatchObject({ code: "service_unavailable", cause: expect.any(SchemaMismatch) })
        expect(String(error)).toMatch(/0001Initial had another text \(\w+ [\w.]+ is (missing|changed|extra)/)
        expect(String(error)).toContain("Run the version of kiln that created it")
        expect(yield* sqliteMigrations.status({ path })).toMatchObject({
          changed: expect.arrayContaining(["0001Initial"]),
        })
        expect(everythingIn(path)).toEqual(before)
      }),
    )
})

describe("digests", () => {
  const changeIn = (path: string, sql: string) => {
    const database = new DatabaseSync(path)
    database.exec(sql)
    database.close()
  }
  const digestsIn = (path: string) => {
    const database = new DatabaseSync(path, { readOnly: true })
    const rows = database.prepare("SELECT name, length(digest) AS length FROM kiln_migrations ORDER BY name").all()
    database.close()
    return rows.map((row) => ({ ...row }))
  }
  const all = migrations.map(({ name }) => ({ name, length: 64 }))

  it.live("are kept with each migration, also with those that an earlier version applied", () =>
    Effect.gen(function* () {
      const fresh = yield* temporaryFile
      yield* sqliteMigrations.apply({ path: fresh })
      expect(digestsIn(fresh)).toEqual(all)
      const path = yield* restore("2026-11-26")
      expect(yield* sqliteMigrations.apply({ path })).toEqual(migrations.slice(1).map(({ name }) => name))
      expect(digestsIn(path)).toEqual(all)
    }),
  )

  it.live("tell a database of another text, whatever its name and its tables are", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* sqliteMigrations.apply({ path })
      changeIn(path, "UPDATE kiln_migrations SET digest = replace(digest, '7', '8') WHERE name = '0001Initial'")
      const error = yield* Effect.flip(sqliteMigrations.apply({ path }))
      expect(error.cause).toBeInstanceOf(SchemaMismatch)
      expect(String(error.cause)).toContain("0001Initial had another text. Nothing was changed.")
    }),
  )

  it.live("are not needed to tell a database of another line of development, whose migrations have other names", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* sqliteMigrations.apply({ path })
      changeIn(path, "UPDATE kiln_migrations SET name = '0011Prerequisites' WHERE name = '0010Prerequisites'")
      const before = everythingIn(path)
      const error = yield* Effect.flip(sqliteMigrations.apply({ path }))
      expect(error.cause).toMatchObject({ name: "SchemaMismatch", changed: ["0011Prerequisites"] })
      expect(everythingIn(path)).toEqual(before)
    }),
  )

  it.live("without them, an index of the operator's is accepted, and a trigger that was dropped is not", () =>
    Effect.gen(function* () {
      const path = yield* restore("2026-11-26")
      changeIn(path, "CREATE INDEX mine ON kiln_jobs (created_at); DROP TRIGGER kiln_charges_are_final;")
      const error = yield* Effect.flip(sqliteMigrations.apply({ path }))
      expect(error.cause).toMatchObject({
        differences: [{ object: "trigger kiln_charges_are_final", problem: "missing" }],
      })
    }),
  )
})
