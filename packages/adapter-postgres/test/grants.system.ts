import { describe, expect, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import pg from "pg"
import { inject } from "vitest"
import { randomBytes } from "node:crypto"
import { arrangeEveryState, callEveryVerb, compareWithMemory } from "@kiln/conformance"
import { inspectPostgres, postgresMigrations, PostgresStores } from "../src/index.ts"
import { applyMigrations } from "../src/migrations/migrate.ts"
import { migrations } from "../src/migrations/index.ts"
import { connect } from "../src/connection/openDatabase.ts"
import { emptyDatabase, runSql } from "./support/databases.ts"
import { ownPlace } from "./support/ownPlace.ts"

/** What the service needs once the schema is there. Everybody may execute functions unless that was revoked, so it says so. */
const grants = (role: string): ReadonlyArray<string> => [
  `GRANT USAGE ON SCHEMA kiln TO ${role}`,
  `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA kiln TO ${role}`,
  `REVOKE INSERT, UPDATE, DELETE ON kiln.migrations FROM ${role}`,
  `REVOKE UPDATE, DELETE ON kiln.charges FROM ${role}`,
  `GRANT USAGE ON ALL SEQUENCES IN SCHEMA kiln TO ${role}`,
  `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA kiln TO ${role}`,
]

/** A role of the server that may log in and nothing else, and goes with the scope, after the databases it has rights in. */
const plainRole: Effect.Effect<{ readonly name: string; readonly password: string }, never, Scope.Scope> = Effect.gen(
  function* () {
    const admin = yield* emptyDatabase
    const name = `kiln_test_${randomBytes(8).toString("hex")}`
    const password = randomBytes(8).toString("hex")
    yield* Effect.acquireRelease(runSql(admin, `CREATE ROLE ${name} LOGIN PASSWORD '${password}'`), () =>
      runSql(admin, `DROP ROLE ${name}`),
    )
    return { name, password }
  },
)

/** The same database by another role. */
const as = (url: string, role: { readonly name: string; readonly password: string }): string => {
  const other = new URL(url)
  other.username = role.name
  other.password = role.password
  return other.href
}

const applyFirst = (url: string, count: number) =>
  Effect.scoped(
    Effect.flatMap(connect({ url }), ({ connections, database }) =>
      applyMigrations(database, connections.schema, migrations.slice(0, count)),
    ),
  )

/** A database with the first migrations and nothing for everybody, and its URL for a role with the least rights. */
const grantedAfter = Effect.fnUntraced(function* (count: number) {
  const role = yield* plainRole
  const admin = yield* emptyDatabase
  yield* applyFirst(admin, count)
  yield* runSql(
    admin,
    `REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA kiln FROM PUBLIC; REVOKE CREATE ON SCHEMA public FROM PUBLIC;
     REVOKE TEMPORARY ON DATABASE ${new URL(admin).pathname.slice(1)} FROM PUBLIC; ${grants(role.name).join(";")}`,
  )
  return { admin, role, url: as(admin, role) }
})

const granted = grantedAfter(migrations.length)

/** The server's answer to a statement: what it says where it refuses. */
const answerTo = (url: string, sql: string): Effect.Effect<string> =>
  Effect.promise(async () => {
    const client = new pg.Client({ connectionString: url })
    client.on("error", () => undefined)
    await client.connect()
    try {
      await client.query(sql)
      return "done"
    } catch (error) {
      return String(Object(error).code)
    } finally {
      await client.end()
    }
  })

const insufficient = "42501"

describe("a role without the privilege to change the schema", () => {
  it.live("opens the store and runs every verb, notifications and the inspection", () =>
    Effect.gen(function* () {
      const { url } = yield* granted
      yield* Effect.provide(
        Effect.andThen(arrangeEveryState, callEveryVerb),
        PostgresStores.layer({ url, poolSize: 2 }),
      )
      const inspection = yield* inspectPostgres({ url })
      expect(yield* inspection?.duePurges ?? Effect.fail("no schema")).toMatchObject({ count: expect.any(Number) })
      expect(yield* postgresMigrations.status({ url })).toMatchObject({ pending: [], unknown: [] })
    }),
  )

  it.live("needs no other rights after migrations that add tables, which triggers write to from the commit on", () =>
    Effect.gen(function* () {
      const { admin, role, url } = yield* grantedAfter(1)
      yield* postgresMigrations.apply({ url: admin })
      yield* Effect.provide(
        Effect.andThen(arrangeEveryState, callEveryVerb),
        PostgresStores.layer({ url, poolSize: 2, notifications: false }),
      )
      const withoutRight = yield* runSql(
        admin,
        `SELECT relname FROM pg_class WHERE relnamespace = 'kiln'::regnamespace AND relkind = 'r' AND relname NOT IN ('charges', 'migrations')
         AND NOT has_table_privilege('${role.name}', oid, 'DELETE')`,
      )
      expect(withoutRight).toEqual([])
      expect(yield* answerTo(url, "DELETE FROM kiln.migrations")).toBe(insufficient)
      expect(yield* answerTo(url, "DELETE FROM kiln.charges")).toBe(insufficient)
    }),
  )

  it.live("cannot create, change or drop anything", () =>
    Effect.gen(function* () {
      const { url } = yield* granted
      for (const sql of [
        "CREATE TABLE kiln.mine (id int)",
        "CREATE TABLE public.mine (id int)",
        "CREATE TEMPORARY TABLE mine (id int)",
        "CREATE SCHEMA mine",
        "CREATE INDEX mine ON kiln.jobs (fingerprint)",
        "CREATE OR REPLACE FUNCTION kiln.store_time() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
        "ALTER TABLE kiln.jobs ADD COLUMN mine int",
        "ALTER TABLE kiln.results DISABLE TRIGGER results_charge",
        "DROP TRIGGER results_charge ON kiln.results",
        "DROP TABLE kiln.charges",
        "DROP SCHEMA kiln CASCADE",
        "TRUNCATE kiln.charges",
        "DELETE FROM kiln.charges",
        "UPDATE kiln.charges SET amount = '0'",
        "DELETE FROM kiln.migrations",
        "SET session_replication_role = replica",
      ])
        expect(yield* answerTo(url, sql), sql).toBe(insufficient)
    }),
  )

  it.live("needs each of its privileges: revoking any of them is noticed", () =>
    Effect.gen(function* () {
      const { admin, role, url } = yield* granted
      const works = Effect.map(
        Effect.exit(
          Effect.provide(callEveryVerb, PostgresStores.layer({ url, poolSize: 2, notifications: false }), {
            local: true,
          }),
        ),
        ({ _tag }) => _tag,
      )
      yield* Effect.provide(arrangeEveryState, PostgresStores.layer({ url, poolSize: 2, notifications: false }))
      for (const right of [
        "USAGE ON SCHEMA kiln",
        "USAGE ON ALL SEQUENCES IN SCHEMA kiln",
        "EXECUTE ON ALL FUNCTIONS IN SCHEMA kiln",
      ]) {
        yield* runSql(admin, `REVOKE ${right} FROM ${role.name}`)
        expect(yield* works, right).toBe("Failure")
        yield* runSql(admin, `GRANT ${right} TO ${role.name}`)
      }
      expect(yield* works).toBe("Success")
    }),
  )

  it.live("fails to open if migrations are pending, and changes nothing", () =>
    Effect.gen(function* () {
      const role = yield* plainRole
      const admin = yield* emptyDatabase
      const exit = yield* Effect.exit(
        Effect.provide(Effect.void, PostgresStores.layer({ url: as(admin, role), poolSize: 2, notifications: false })),
      )
      expect(String(exit)).toContain("permission denied")
      expect(yield* postgresMigrations.status({ url: admin })).toMatchObject({ applied: [] })
    }),
  )
})

compareWithMemory({
  name: "Postgres, with the least rights,",
  place: Effect.gen(function* () {
    const { admin, role, url } = yield* granted
    return yield* ownPlace({
      url: admin,
      stores: { url },
      prepare: (client) => client.query(`GRANT SELECT ON kiln.test_clock TO ${role.name}`),
    })
  }),
  capabilities: { durable: true, multiProcess: true },
  // The proof tier has the time for more.
  runs: inject("tier") === "proof" ? 20 : 2,
})
