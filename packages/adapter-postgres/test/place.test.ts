import { freshDatabase, postgresServer, withClient } from "@kiln/postgres-lab"
import { JobDirectory, StorePlace } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { PostgresStores } from "../src/index.ts"
import { isSameSchema, type SchemaIdentity } from "../src/place.ts"

const placeOf = (url: string, more: { readonly schema?: string; readonly allowCopies?: boolean } = {}) =>
  Effect.runPromise(
    Effect.flatMap(StorePlace, ({ read }) => read).pipe(
      Effect.provide(PostgresStores.layer({ url, notifications: false, ...more })),
      Effect.scoped,
    ),
  )

const onServer = async (sql: string) => withClient(await postgresServer(), (client) => client.query(sql))

const at = (url: string, name: string): string => {
  const other = new URL(url)
  other.pathname = `/${name}`
  return other.href
}

describe("the place of a Postgres schema", () => {
  it("is the same when the database is renamed, and another one for a copy of the database or of the tables", async () => {
    await using database = await freshDatabase()
    const before = await placeOf(database.url)
    if (before === undefined) throw new Error("no place")
    expect(before.description).toMatch(
      /^the database kiln_test_\w+ at \S+ \(number \d+ of server \d+, timeline 1\), schema kiln$/,
    )
    const isStill = async (url: string) => (await placeOf(url))?.isSame(before.document)
    expect(await isStill(database.url)).toBe(true)
    {
      await using copy = await freshDatabase({ template: database.name })
      expect(await isStill(copy.url)).toBe(false)
    }
    await onServer(`ALTER DATABASE ${database.name} RENAME TO ${database.name}_2`)
    expect(await isStill(at(database.url, `${database.name}_2`))).toBe(true)
    await onServer(`ALTER DATABASE ${database.name}_2 RENAME TO ${database.name}`)
    // As `pg_restore --clean` does it.
    await withClient(database.url, (client) => client.query("DROP SCHEMA kiln CASCADE"))
    expect(await isStill(database.url)).toBe(false)
  })

  it("is told to a role without special rights, and not told where copies are allowed", async () => {
    await using database = await freshDatabase()
    expect(await placeOf(database.url, { allowCopies: true })).toBeUndefined()
    const role = `${database.name}_reader`
    await onServer(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`)
    await onServer("REVOKE EXECUTE ON FUNCTION pg_catalog.pg_control_system() FROM public")
    try {
      await withClient(database.url, async (client) => {
        await client.query(`REVOKE EXECUTE ON FUNCTION pg_catalog.pg_control_system() FROM public`)
        await client.query(
          `GRANT USAGE ON SCHEMA kiln TO ${role}; GRANT SELECT ON ALL TABLES IN SCHEMA kiln TO ${role}`,
        )
      })
      const url = new URL(database.url)
      url.username = role
      url.password = "secret"
      const place = await placeOf(url.href)
      expect(place?.description).toMatch(/^the database kiln_test_\w+ at \S+ \(number \d+, timeline 1\), schema kiln$/)
      // The process of the owner sees the same place, and the other way round.
      const full = await placeOf(database.url)
      expect([full?.isSame(place?.document ?? ""), place?.isSame(full?.document ?? "")]).toEqual([true, true])
    } finally {
      await onServer("GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() TO public")
      await withClient(database.url, (client) => client.query(`DROP OWNED BY ${role}`))
      await onServer(`DROP ROLE ${role}`)
    }
  })

  const schema: SchemaIdentity = {
    system: "7000000000000000001",
    database: "16384",
    table: "16390",
    timeline: "00000001",
    address: "db.internal:5432/app kiln",
  }
  it.each<[string, Partial<SchemaIdentity>, boolean]>([
    ["processes address the server by different names", { address: "127.0.0.1:5432/app kiln" }, true],
    ["a replica was promoted behind the same name", { timeline: "00000002" }, true],
    [
      "a base backup was restored on another server",
      { timeline: "00000002", address: "restored:5432/app kiln" },
      false,
    ],
    ["a dump was restored into a new server", { system: "7000000000000000002" }, false],
    ["another database", { database: "16385" }, false],
    ["new tables", { table: "20000" }, false],
    ["a managed server that tells nothing", { system: null, timeline: null, address: "other:5432/app kiln" }, true],
  ])("%s", (_what, change, expected) => {
    const now = { ...schema, ...change }
    expect(isSameSchema(schema, now)).toBe(expected)
    expect(isSameSchema(now, schema)).toBe(expected)
  })
})

describe("a running store", () => {
  it("does not continue in another database that was given the name of its own", async () => {
    await using database = await freshDatabase()
    await placeOf(database.url)
    await using copy = await freshDatabase({ template: database.name })
    const rename = async (from: string, to: string) => {
      await onServer(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN ('${from}', '${to}')`)
      await onServer(`ALTER DATABASE ${from} RENAME TO ${to}`)
    }
    const list = Effect.flatMap(JobDirectory, ({ listJobs }) => Effect.exit(listJobs({ limit: 1 })))
    await Effect.runPromise(
      Effect.gen(function* () {
        expect(yield* list).toMatchObject({ _tag: "Success" })
        yield* Effect.promise(async () => {
          await rename(database.name, `${database.name}_old`)
          await rename(copy.name, database.name)
        })
        const refused = yield* list
        expect(String(refused)).toContain("another database answers at this address")
        yield* Effect.promise(async () => {
          await rename(database.name, copy.name)
          await rename(`${database.name}_old`, database.name)
        })
        expect(yield* list).toMatchObject({ _tag: "Success" })
      }).pipe(
        Effect.provide(PostgresStores.layer({ url: database.url, notifications: false, reconnectForMs: 5_000 })),
        Effect.scoped,
      ),
    )
  })
})
