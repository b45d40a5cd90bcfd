import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Migration } from "@kiln/core/ports"
import { arrangeEveryState, callEveryVerb } from "@kiln/conformance"
import { copyTables, inspectSqlite, openCopySource } from "../src/index.ts"
import { migrate, migrationStatus } from "../src/migrations/migrate.ts"
import { migrations } from "../src/migrations/index.ts"
import { openDatabase } from "../src/openDatabase.ts"
import { onDatabase } from "./support/arrangeJobs.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

/**
 * Additions that a later release might make: columns with defaults, a table filled from existing rows, an index and a trigger. To that
 * release, this version is the older one.
 */
const next: Migration = {
  name: "9001Regions",
  sql: `
ALTER TABLE kiln_jobs ADD COLUMN region TEXT NOT NULL DEFAULT 'eu' CHECK (region IN ('eu', 'us'));
ALTER TABLE kiln_lanes ADD COLUMN region TEXT NOT NULL DEFAULT 'eu';
ALTER TABLE kiln_workers ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE kiln_uploads ADD COLUMN region TEXT NOT NULL DEFAULT 'eu';
CREATE TABLE kiln_regions (name TEXT NOT NULL PRIMARY KEY, jobs INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO kiln_regions SELECT region, count(*) FROM kiln_jobs GROUP BY region;
CREATE INDEX kiln_jobs_by_region ON kiln_jobs (region, created_at);
CREATE TRIGGER kiln_jobs_counted AFTER INSERT ON kiln_jobs
BEGIN INSERT INTO kiln_regions VALUES (NEW.region, 1) ON CONFLICT DO UPDATE SET jobs = jobs + 1; END;
CREATE TRIGGER kiln_jobs_uncounted AFTER DELETE ON kiln_jobs
BEGIN UPDATE kiln_regions SET jobs = jobs - 1 WHERE name = OLD.region; END;
CREATE TRIGGER kiln_jobs_region_is_final BEFORE UPDATE OF region ON kiln_jobs
BEGIN SELECT RAISE(ABORT, 'a job stays in its region'); END;
`,
}
const withNext = [...migrations, next]

const openWithNext = (path: string) => Effect.tap(openDatabase({ path }), (database) => migrate(database, withNext))

const everythingIn = (path: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const source = yield* openCopySource(path)
      if (source === undefined) return expect.unreachable()
      return yield* Effect.forEach(copyTables, (table) =>
        Effect.gen(function* () {
          const rows: Array<Readonly<Record<string, unknown>>> = []
          yield* source.forEachPage(table, (page) => Effect.sync(() => void rows.push(...page)))
          return rows
        }),
      )
    }),
  )

const withEveryState = Effect.gen(function* () {
  const path = yield* temporaryFile
  yield* Effect.scoped(Effect.flatMap(openDatabase({ path }), (database) => onDatabase(database)(arrangeEveryState)))
  return path
})

describe("a database of the version before", () => {
  it.live("is migrated in one step, and its content stays", () =>
    Effect.gen(function* () {
      const path = yield* withEveryState
      const before = yield* everythingIn(path)
      const pending = yield* Effect.scoped(
        Effect.flatMap(openDatabase({ path }), (database) =>
          Effect.gen(function* () {
            const status = migrationStatus(database.connection, withNext)
            yield* migrate(database, withNext)
            yield* migrate(database, withNext)
            expect(migrationStatus(database.connection, withNext).pending).toEqual([])
            const regions = database.connection.prepare("SELECT * FROM kiln_regions").all([])
            expect(regions).toEqual(
              database.connection.prepare("SELECT 'eu' AS name, count(*) AS jobs FROM kiln_jobs").all([]),
            )
            return status.pending.map(({ name }) => name)
          }),
        ),
      )
      expect(pending).toEqual([next.name])
      const after = yield* everythingIn(path)
      const isNew = new Set(["region", "host"])
      expect(
        after.map((rows) =>
          rows.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => !isNew.has(name)))),
        ),
      ).toEqual(before)
      expect(before.flat().length).toBeGreaterThan(20)
    }),
  )
})

describe("beside a process of the version before", () => {
  it.live("a process of this version, open during the migration, continues: every verb works on rows of both", () =>
    Effect.gen(function* () {
      const path = yield* withEveryState
      const older = yield* openDatabase({ path })
      const newer = yield* openWithNext(path)
      yield* onDatabase(older)(callEveryVerb)
      const count = () => newer.connection.prepare("SELECT sum(jobs) AS jobs FROM kiln_regions").all([])
      const jobs = newer.connection.prepare("SELECT count(*) AS jobs FROM kiln_jobs").all([])
      // The newer version's triggers also run for writes and deletions of the older one.
      expect(count()).toEqual(jobs)
    }),
  )

  it.live("a process of this version starts on the newer schema, lists unknown migrations, and finds no drift", () =>
    Effect.gen(function* () {
      const path = yield* withEveryState
      yield* Effect.scoped(openWithNext(path))
      const older = yield* openDatabase({ path })
      expect(migrationStatus(older.connection)).toMatchObject({ pending: [], unknown: [next.name] })
      yield* onDatabase(older)(callEveryVerb)
      const inspection = yield* inspectSqlite({ path })
      if (inspection === undefined) return expect.unreachable()
      expect(yield* inspection.schemaDrift).toEqual([])
      expect(yield* inspection.damage).toEqual([])
    }),
  )
})
