import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { builtInKinds, createEngine, SchemaMismatch } from "@kiln/core"
import { finishKeptJobs, readKeptDatabase } from "@kiln/conformance"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs } from "@kiln/testing"
import { inspectPostgres, postgresMigrations, postgresStore } from "../src/index.ts"
import { migrations } from "../src/migrations/index.ts"
import { migrationStatus } from "../src/migrations/migrate.ts"
import { connect } from "../src/connection/openDatabase.ts"
import type { Session } from "../src/connection/Session.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"

/**
 * Schemas of earlier states, which this version migrates. In the first two, functions of the first migration had another text.
 * `scripts/keepDatabases.ts` makes the next one.
 */
const keptStates = [
  "2026-11-25-b",
  "2026-11-25-c",
  "2026-11-26",
  "2026-11-26-b",
  "2026-11-26-c",
  "2026-11-27",
  "2026-11-28",
]
/** Schemas whose first migration had another text, before digests of texts were kept. */
const otherTexts = ["2026-11-22", "2026-11-24", "2026-11-25-a"]

const restore = (name: string) =>
  Effect.gen(function* () {
    const url = yield* emptyDatabase
    yield* runSql(url, readKeptDatabase(new URL(`kept/${name}.sql.gz`, import.meta.url), Date.now()))
    return url
  })

const everythingIn = (url: string) =>
  runSql(
    url,
    `SELECT oid::regclass::text AS name, query_to_xml('SELECT * FROM ' || oid::regclass, true, false, '')::text AS rows
     FROM pg_class WHERE relnamespace = 'kiln'::regnamespace AND relkind = 'r' ORDER BY 1`,
  )

const engineOn = (url: string) =>
  createEngine({
    store: postgresStore({ url, allowCopies: true, poolSize: 4, notifications: false }),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders(), live: sandboxProviders() },
    log: false,
  })

describe("a kept schema", () => {
  for (const name of keptStates)
    it.live(`of ${name} is migrated, and all its jobs end`, () =>
      Effect.gen(function* () {
        const url = yield* restore(name)
        const ended = yield* Effect.promise(async () => {
          await using engine = await engineOn(url)
          return await finishKeptJobs(engine, Date.now())
        })
        expect(ended).toMatchObject({ failed: 2 })
        expect(yield* postgresMigrations.status({ url })).toMatchObject({ pending: [], unknown: [], changed: [] })
        const inspection = yield* inspectPostgres({ url })
        expect(yield* inspection?.schemaDrift ?? Effect.succeed("no schema")).toEqual([])
      }),
    )

  for (const name of otherTexts)
    it.live(`of ${name} is refused with the way out, and stays as it is`, () =>
      Effect.gen(function* () {
        const url = yield* restore(name)
        const before = yield* everythingIn(url)
        const error: unknown = yield* Effect.promise(() => engineOn(url).catch((reason: unknown) => reason))
        expect(error).toMatchObject({ code: "service_unavailable", cause: expect.any(SchemaMismatch) })
        expect(String(error)).toMatch(/0001Initial had another text \(\w+ [\w.]+ is (missing|changed|extra)/)
        expect(String(error)).toContain("Run the version of kiln that created it")
        expect(yield* postgresMigrations.status({ url })).toMatchObject({
          changed: expect.arrayContaining(["0001Initial"]),
        })
        expect(yield* Effect.flip(postgresMigrations.apply({ url }))).toMatchObject({ operation: "migrate" })
        expect(yield* everythingIn(url)).toEqual(before)
      }),
    )
})

describe("a process that starts while another one migrates a kept schema", () => {
  /** A session after whose first reading of the applied migrations another process applies those that are pending. */
  const migratedMeanwhile = (session: Session, url: string): Session => {
    let others: Promise<unknown> | undefined
    const execute: Session["execute"] = async (text, values) => {
      const rows = await session.execute<never>(text, values)
      if (text.includes('FROM "kiln".migrations'))
        await (others ??= Effect.runPromise(postgresMigrations.apply({ url })))
      return rows
    }
    return Object.assign(Object.create(session) as Session, { execute })
  }

  it.live("does not take a schema that has changed between two readings for one of another text", () =>
    Effect.gen(function* () {
      const url = yield* restore("2026-11-26")
      const status = yield* Effect.scoped(
        Effect.flatMap(connect({ url }), ({ connections, database }) =>
          database.read("migrate", (session) => migrationStatus(migratedMeanwhile(session, url), connections.schema)),
        ),
      )
      expect(status).toMatchObject({ pending: [], changed: [], unknown: [] })
    }),
  )
})

describe("digests", () => {
  const digestsIn = (url: string) =>
    runSql(url, "SELECT name, length(digest) AS length FROM kiln.migrations ORDER BY name")
  const all = migrations.map(({ name }) => ({ name, length: 64 }))

  it.live("are kept with each migration, also with those that an earlier version applied", () =>
    Effect.gen(function* () {
      const fresh = yield* emptyDatabase
      yield* postgresMigrations.apply({ url: fresh })
      expect(yield* digestsIn(fresh)).toEqual(all)
      const url = yield* restore("2026-11-26")
      expect(yield* postgresMigrations.apply({ url })).toEqual(migrations.slice(1).map(({ name }) => name))
      expect(yield* digestsIn(url)).toEqual(all)
    }),
  )

  it.live("tell a schema of another text, whatever its name and its tables are", () =>
    Effect.gen(function* () {
      const url = yield* emptyDatabase
      yield* postgresMigrations.apply({ url })
      yield* runSql(url, "UPDATE kiln.migrations SET digest = translate(digest, '7', '8') WHERE name = '0001Initial'")
      const error = yield* Effect.flip(postgresMigrations.apply({ url }))
      expect(error.cause).toBeInstanceOf(SchemaMismatch)
      expect(String(error.cause)).toContain("0001Initial had another text. Nothing was changed.")
    }),
  )

  it.live("without them, an index of the operator's is accepted, and a trigger that was dropped is not", () =>
    Effect.gen(function* () {
      const url = yield* restore("2026-11-26")
      yield* runSql(
        url,
        "CREATE INDEX mine ON kiln.jobs (created_at); DROP TRIGGER jobs_deleted_when_finished ON kiln.jobs",
      )
      const error = yield* Effect.flip(postgresMigrations.apply({ url }))
      expect(error.cause).toMatchObject({
        differences: [{ object: "trigger jobs_deleted_when_finished", problem: "missing" }],
      })
    }),
  )
})
