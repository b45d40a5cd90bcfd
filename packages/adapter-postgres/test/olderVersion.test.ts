import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Migration } from "@kiln/core/ports"
import { callEveryVerb } from "@kiln/conformance"
import { inspectPostgres, postgresMigrations, PostgresStores } from "../src/index.ts"
import { applyMigrations } from "../src/migrations/migrate.ts"
import { migrations } from "../src/migrations/index.ts"
import { connect } from "../src/connection/openDatabase.ts"
import { runSql } from "./support/databases.ts"
import { everyState } from "./support/everyState.ts"

/**
 * What a release after this one might add: columns with defaults, a table filled from what is there, an index and a trigger.
 * With it, this version is the older one.
 */
const next: Migration = {
  name: "9001Regions",
  sql: `
LOCK TABLE "kiln".queue, "kiln".jobs IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "kiln".jobs ADD COLUMN region text NOT NULL DEFAULT 'eu' CHECK (region IN ('eu', 'us'));
ALTER TABLE "kiln".queue ADD COLUMN region text NOT NULL DEFAULT 'eu';
ALTER TABLE "kiln".workers ADD COLUMN host text NOT NULL DEFAULT '';
ALTER TABLE "kiln".uploads ADD COLUMN region text NOT NULL DEFAULT 'eu';
CREATE TABLE "kiln".regions (name text PRIMARY KEY, jobs bigint NOT NULL);
INSERT INTO "kiln".regions SELECT region, count(*) FROM "kiln".jobs GROUP BY region;
CREATE INDEX jobs_by_region ON "kiln".jobs (region, created_at);
CREATE FUNCTION "kiln".count_region() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    UPDATE "kiln".regions SET jobs = jobs - 1 WHERE name = OLD.region;
  ELSE
    INSERT INTO "kiln".regions VALUES (NEW.region, 1) ON CONFLICT (name) DO UPDATE SET jobs = regions.jobs + 1;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_counted AFTER INSERT OR DELETE ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".count_region();
CREATE TRIGGER jobs_region_is_final BEFORE UPDATE OF region ON "kiln".jobs
FOR EACH ROW EXECUTE FUNCTION "kiln".refuse('a job stays in its region');
`,
}

const applyNext = (url: string) =>
  Effect.scoped(
    Effect.flatMap(connect({ url }), ({ connections, database }) =>
      applyMigrations(database, connections.schema, [...migrations, next]),
    ),
  )

const tables = ["jobs", "results", "queue", "lanes", "files", "uploads", "charges", "prices", "api_keys", "purges"]

/** Every row of these tables, without the columns that `next` adds. */
const rowsIn = (url: string) =>
  Effect.forEach(tables, (table) =>
    runSql(url, `SELECT to_jsonb(${table}) - 'region' AS row FROM "kiln".${table} ORDER BY to_jsonb(${table})::text`),
  )

const storesOf = (url: string) => PostgresStores.layer({ url, poolSize: 2, notifications: false })
const counted = (url: string) => runSql(url, `SELECT sum(jobs)::int AS jobs FROM "kiln".regions`)
const stored = (url: string) => runSql(url, `SELECT count(*)::int AS jobs FROM "kiln".jobs`)

describe("a database of the version before", () => {
  it.live("is migrated once, and its rows stay unchanged", () =>
    Effect.gen(function* () {
      const url = yield* everyState
      const before = yield* rowsIn(url)
      expect(before.flat().length).toBeGreaterThan(20)
      expect(yield* applyNext(url)).toEqual([next.name])
      expect(yield* applyNext(url)).toEqual([])
      expect(yield* rowsIn(url)).toEqual(before)
      expect(yield* counted(url)).toEqual(yield* stored(url))
    }),
  )
})

describe("beside a process of the version before", () => {
  it.live("a process of this version, open during the migration, goes on: every verb", () =>
    Effect.gen(function* () {
      const url = yield* everyState
      const older = yield* Layer.build(storesOf(url))
      yield* applyNext(url)
      yield* Effect.provideContext(callEveryVerb, older)
      // The newer version's trigger also sees what the older one writes and deletes.
      expect(yield* counted(url)).toEqual(yield* stored(url))
    }),
  )

  it.live("a process of this version starts on the newer schema, names what it does not know, and finds no drift", () =>
    Effect.gen(function* () {
      const url = yield* everyState
      yield* applyNext(url)
      expect(yield* postgresMigrations.status({ url })).toMatchObject({ pending: [], unknown: [next.name] })
      yield* Effect.provide(callEveryVerb, storesOf(url))
      const inspection = yield* inspectPostgres({ url })
      expect(yield* inspection?.schemaDrift ?? Effect.succeed("no schema")).toEqual([])
    }),
  )
})
