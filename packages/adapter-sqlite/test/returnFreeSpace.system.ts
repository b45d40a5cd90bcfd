import { statSync } from "node:fs"
import Sqlite from "better-sqlite3"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import type { Database } from "../src/Database.ts"
import { inspectSqlite } from "../src/index.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { pathOf } from "./support/pathOf.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const open = Effect.flatMap(temporaryFile, (path) => openDatabase({ path }))

const upkeepOf = (path: string) =>
  Effect.flatMap(inspectSqlite({ path }), (inspection) => inspection?.upkeep ?? Effect.succeed([]))

/** Enough content that more than the reserve becomes free. */
const fill = (database: Database, megabytes: number): void => {
  database.connection.exec("CREATE TABLE IF NOT EXISTS ballast (content BLOB)")
  const insert = database.connection.prepare("INSERT INTO ballast VALUES (randomblob(1048000))")
  for (let n = 0; n < megabytes; n++) insert.run([])
  database.connection.pragma("wal_checkpoint(TRUNCATE)")
}

const pages = ({ connection }: Database, name: string): number => Number(connection.pragma(name, { simple: true }))
const megabytesOf = (database: Database): number => Math.round(statSync(pathOf(database)).size / 1_048_576)

const eraseAll = (database: Database) =>
  database.write("erase", (tx) => {
    database.connection.exec("DELETE FROM ballast")
    tx.noteErasure()
  })

describe("space of erased content", () => {
  it.effect("goes back to the file system a minute later, half a megabyte a second, but for a reserve", () =>
    Effect.gen(function* () {
      const database = yield* open
      fill(database, 12)
      yield* eraseAll(database)
      yield* TestClock.adjust(59_000)
      expect(megabytesOf(database)).toBeGreaterThanOrEqual(12)
      expect(yield* upkeepOf(pathOf(database))).toEqual([])
      const before = pages(database, "freelist_count")
      yield* TestClock.adjust(1_000)
      expect(before - pages(database, "freelist_count")).toBe(128)
      yield* TestClock.adjust(1_000)
      expect(before - pages(database, "freelist_count")).toBe(256)
      yield* TestClock.adjust(60_000)
      expect(pages(database, "freelist_count")).toBe(1_024)
      expect(megabytesOf(database)).toBeLessThanOrEqual(5)
      expect(database.connection.pragma("integrity_check", { simple: true })).toBe("ok")
    }),
  )

  it.effect("that an earlier process left goes back too", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      yield* Effect.scoped(
        Effect.gen(function* () {
          const database = yield* openDatabase({ path })
          fill(database, 12)
          yield* eraseAll(database)
        }),
      )
      const database = yield* openDatabase({ path })
      yield* TestClock.adjust(120_000)
      expect(megabytesOf(database)).toBeLessThanOrEqual(5)
    }),
  )

  it.effect("stays as a reserve of a tenth in a large file", () =>
    Effect.gen(function* () {
      const database = yield* open
      fill(database, 60)
      yield* database.write("erase", (tx) => {
        database.connection.exec("DELETE FROM ballast WHERE rowid > 50")
        tx.noteErasure()
      })
      yield* TestClock.adjust(200_000)
      const share = pages(database, "freelist_count") / pages(database, "page_count")
      expect(share).toBeGreaterThan(0.08)
      expect(share).toBeLessThan(0.11)
    }),
  )

  it.effect("stays in a file that another program created, and an inspection says how to return it", () =>
    Effect.gen(function* () {
      const path = yield* temporaryFile
      const foreign = new Sqlite(path)
      foreign.exec("CREATE TABLE guests (id INTEGER PRIMARY KEY)")
      foreign.close()
      const database = yield* openDatabase({ path })
      expect(pages(database, "auto_vacuum")).toBe(0)
      fill(database, 70)
      yield* eraseAll(database)
      yield* TestClock.adjust(120_000)
      expect(megabytesOf(database)).toBeGreaterThanOrEqual(70)
      expect(yield* upkeepOf(path)).toEqual([
        {
          problem: expect.stringMatching(/^7\d MB of 7\d MB in .*kiln\.db are unused/),
          remedy: expect.stringMatching(/sqlite3 .*kiln\.db "PRAGMA auto_vacuum = INCREMENTAL; VACUUM"$/),
          isUrgent: false,
        },
      ])
    }),
  )
})
