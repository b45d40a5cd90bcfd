import { describe, expect, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { JobStore, SecretStore, UploadStore } from "@kiln/core/ports"
import { fixtures } from "@kiln/conformance"
import { inspectPostgres, postgresMigrations, PostgresStores } from "../src/index.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"

const inspect = (url: string, schema = "kiln") =>
  Effect.flatMap(inspectPostgres({ url, schema }), (inspection) =>
    inspection === undefined ? Effect.die(new Error("there is no schema")) : Effect.succeed(inspection),
  )

/** A schema as the migrations leave it, then changed behind kiln's back. */
const changedBy = (sql: string, schema = "kiln") =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* postgresMigrations.apply({ url, schema })
    yield* runSql(url, sql)
    return yield* inspect(url, schema)
  })

describe("schemaDrift", () => {
  // The name of the second is a word of the comments in functions.
  for (const schema of ["kiln", "other", "a_1"])
    it.live(`is empty after the migrations, in the schema ${schema}, regardless of tuning and of other tables`, () =>
      Effect.gen(function* () {
        const inspection = yield* changedBy(
          `CREATE TABLE ${schema}.guests (id int PRIMARY KEY); CREATE INDEX ON ${schema}.guests (id);
           ALTER TABLE ${schema}.jobs SET (autovacuum_vacuum_scale_factor = 0.01); ANALYZE`,
          schema,
        )
        expect(yield* inspection.schemaDrift).toEqual([])
        expect(yield* inspection.damage).toEqual([])
        // And nothing of the comparison stays.
        expect(yield* inspection.schemaDrift).toEqual([])
      }),
    )

  it.live("is empty after a dump was restored, which spells triggers as the server does", () =>
    Effect.gen(function* () {
      const inspection = yield* changedBy(`DO $$ DECLARE step record; BEGIN
        FOR step IN SELECT tgname, tgrelid::regclass AS owner, pg_get_triggerdef(oid) AS text FROM pg_trigger WHERE NOT tgisinternal LOOP
          EXECUTE format('DROP TRIGGER %I ON %s', step.tgname, step.owner);
          EXECUTE step.text;
        END LOOP;
      END $$`)
      expect(yield* inspection.schemaDrift).toEqual([])
    }),
  )

  const drifts: ReadonlyArray<readonly [change: string, drift: ReadonlyArray<object>]> = [
    ["DROP TABLE kiln.purges", [{ object: "table purges", problem: "missing" }]],
    ["DROP INDEX kiln.queue_by_turn", [{ object: "index queue_by_turn", problem: "missing" }]],
    ["DROP TRIGGER results_charge ON kiln.results", [{ object: "trigger results_charge", problem: "missing" }]],
    [
      "ALTER TABLE kiln.results DISABLE TRIGGER results_charge",
      [{ object: "trigger results_charge", problem: "changed" }],
    ],
    ["ALTER TABLE kiln.projects ADD COLUMN owner text", [{ object: "column projects.owner", problem: "extra" }]],
    [
      "ALTER TABLE kiln.projects DROP COLUMN created_at",
      [{ object: "column projects.created_at", problem: "missing" }],
    ],
    [
      "ALTER TABLE kiln.projects ALTER created_at DROP NOT NULL",
      [{ object: "column projects.created_at", problem: "changed" }],
    ],
    ["CREATE INDEX mine ON kiln.jobs (fingerprint)", [{ object: "index mine", problem: "extra" }]],
    [
      "ALTER TABLE kiln.lanes DROP CONSTRAINT lanes_mode_check",
      [{ object: "constraint lanes.lanes_mode_check", problem: "missing" }],
    ],
    ["ALTER DOMAIN kiln.job_mode DROP CONSTRAINT job_mode_check", [{ object: "domain job_mode", problem: "changed" }]],
    [
      "CREATE OR REPLACE FUNCTION kiln.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
      [{ object: "function refuse", problem: "changed" }],
    ],
  ]
  for (const [change, drift] of drifts)
    it.live(`after ${change}`, () =>
      Effect.gen(function* () {
        expect(yield* (yield* changedBy(change)).schemaDrift).toEqual(drift)
      }),
    )

  it.live("attributes additional parts to a newer version, and still reports missing ones", () =>
    Effect.gen(function* () {
      const inspection = yield* changedBy(`
        INSERT INTO kiln.migrations VALUES ('9999Newer', 1);
        ALTER TABLE kiln.jobs ADD COLUMN newer text; CREATE INDEX jobs_newer ON kiln.jobs (newer);
        DROP INDEX kiln.queue_by_turn`)
      expect(yield* inspection.schemaDrift).toEqual([{ object: "index queue_by_turn", problem: "missing" }])
    }),
  )
})

it.live("needs only the privilege to create temporary tables", () =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* postgresMigrations.apply({ url })
    const role = `poor_${new URL(url).pathname.slice(1)}`
    yield* Effect.acquireRelease(
      runSql(
        url,
        `CREATE ROLE ${role} LOGIN PASSWORD 'little'; GRANT USAGE ON SCHEMA kiln TO ${role};
        GRANT SELECT ON ALL TABLES IN SCHEMA kiln TO ${role}`,
      ),
      () => runSql(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`),
    )
    const poor = Object.assign(new URL(url), { username: role, password: "little" }).href
    expect(yield* Effect.scoped(Effect.flatMap(inspect(poor), ({ schemaDrift }) => schemaDrift))).toEqual([])
    yield* runSql(url, `REVOKE TEMPORARY ON DATABASE ${new URL(url).pathname.slice(1)} FROM PUBLIC`)
    const refused = Effect.scoped(Effect.flatMap(inspect(poor), ({ schemaDrift }) => schemaDrift))
    expect(yield* Effect.flip(refused)).toMatchObject({ _tag: "StoreUnavailable", cause: { code: "42501" } })
  }),
)

it.live("is undefined without a schema", () =>
  Effect.gen(function* () {
    expect(yield* inspectPostgres({ url: yield* emptyDatabase })).toBe(undefined)
  }),
)

describe("records", () => {
  const stored = Effect.gen(function* () {
    const url = yield* emptyDatabase
    const layer = PostgresStores.layer({ url, poolSize: 2, notifications: false })
    return { layer, inspection: yield* Effect.andThen(Effect.provide(SecretStore, layer), inspect(url)), url }
  })

  it.live("name the blobs of received uploads, over many pages, until they are erased", () =>
    Effect.gen(function* () {
      const { inspection, layer, url } = yield* stored
      // One page is 500 rows.
      const numbers = [...Array(501).keys()].map((n) => n + 1)
      yield* Effect.provide(
        Effect.flatMap(UploadStore, (uploads) => uploads.createUploads(numbers.map((n) => fixtures.newUpload(n)))),
        layer,
      )
      expect(yield* Stream.runCollect(inspection.namedBlobs)).toEqual([])
      yield* runSql(
        url,
        "UPDATE kiln.uploads SET token = 1, transfers = 1, blob_key = 'uploads/' || seq, bytes = 1, sha256 = 'x'",
      )
      const blobs = yield* Stream.runCollect(inspection.namedBlobs)
      expect(blobs.map(({ id }) => id)).toEqual(numbers.map((n) => fixtures.uploadId(n)))
      const [first] = blobs
      if (first === undefined) return expect.unreachable()
      expect(yield* inspection.isNamed(first)).toBe(true)
      yield* runSql(
        url,
        "UPDATE kiln.uploads SET erased = true, blob_key = NULL, bytes = NULL, sha256 = NULL WHERE seq = 1",
      )
      expect(yield* inspection.isNamed(first)).toBe(false)
      expect(yield* Stream.runCollect(inspection.namedBlobs)).toHaveLength(500)
    }),
  )

  it.live("name the files of done jobs while their data is kept", () =>
    Effect.gen(function* () {
      const { inspection, layer } = yield* stored
      const principal = fixtures.ownerOf(fixtures.newJob(1))
      yield* Effect.gen(function* () {
        const jobs = yield* JobStore
        yield* jobs.createJobs([fixtures.newJob(1)])
        const runnable = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }] as const
        const ask = { runnable, limits: fixtures.noLimits, limit: 1, leaseDurationMs: 60_000, maxLostWorkers: 3 }
        const { claims } = yield* jobs.claimJobs(ask)
        yield* jobs.completeJobs(
          claims.map((claim) => fixtures.completionOf(claim, { files: [fixtures.outputFile(claim, 1)] })),
        )
        const [blob] = yield* Stream.runCollect(inspection.namedBlobs)
        expect(blob).toEqual({
          id: fixtures.fileId(1),
          blobKey: expect.stringMatching(/^jobs\/.*\/1\/audio$/),
          bytes: 4_096,
          sha256: fixtures.digest(1),
        })
        if (blob === undefined) return expect.unreachable()
        expect(yield* inspection.isNamed(blob)).toBe(true)
        yield* jobs.eraseJobs([{ jobId: fixtures.jobId(1), principal }])
        expect(yield* inspection.isNamed(blob)).toBe(false)
        expect((yield* inspection.duePurges).count).toBe(1)
      }).pipe(Effect.provide(layer))
    }),
  )

  it.live("include the age of due purges, and secrets", () =>
    Effect.gen(function* () {
      const { inspection, layer, url } = yield* stored
      expect(yield* inspection.duePurges).toEqual({ count: 0, oldestAgeMs: 0 })
      yield* runSql(
        url,
        "INSERT INTO kiln.purges (blob_prefix, recorded_at) VALUES ('jobs/a', kiln.store_time() - 90000)",
      )
      const { count, oldestAgeMs } = yield* inspection.duePurges
      expect([count, oldestAgeMs >= 90_000 && oldestAgeMs < 150_000]).toEqual([1, true])
      expect(yield* inspection.findSecret("installation")).toBe(undefined)
      yield* Effect.provide(
        Effect.flatMap(SecretStore, (secrets) => secrets.getOrCreate("installation", Uint8Array.of(1, 2))),
        layer,
      )
      expect(yield* inspection.findSecret("installation")).toEqual(Uint8Array.of(1, 2))
    }),
  )
})
