import { PGlite } from "@electric-sql/pglite"
import { auditLogConformance, compareWithMemory, storeConformance } from "@kiln/conformance"
import { Effect } from "effect"
import { afterAll } from "vitest"
import { postgresMigrations, PostgresStores } from "../src/index.ts"
import { clockText, onEffectClock } from "./support/virtualTime.ts"

/** One database for all tests: making one takes seconds. Each test has a schema of its own. */
let opened: Promise<PGlite> | undefined
const database = (): Promise<PGlite> => (opened ??= PGlite.create())
afterAll(async () => (await opened)?.close())

/** Tables that a migration has written to. */
const filled = ["fairness", "closed_ledger"]

/** Empties a schema: making one takes longer than a test. */
const empty = async (pglite: PGlite, schema: string): Promise<void> => {
  const { rows } = await pglite.query<{ name: string }>(
    "SELECT relname AS name FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'",
    [schema],
  )
  const tables = rows.map(({ name }) => name).filter((name) => name !== "migrations")
  await pglite.exec(`
    SET session_replication_role = replica;
    ${tables.map((name) => `DELETE FROM "${schema}"."${name}";`).join("\n")}
    ${filled.map((name) => `INSERT INTO "${schema}"."${name}" SELECT * FROM "${schema}_first"."${name}";`).join("\n")}
    INSERT INTO "${schema}".test_clock VALUES (0);
    RESET session_replication_role;`)
}

/** Schemas that no test uses. */
const free: Array<string> = []
let schemas = 0

const newSchema = (pglite: PGlite) =>
  Effect.gen(function* () {
    schemas += 1
    const schema = `kiln_${schemas}`
    yield* postgresMigrations.apply({ pglite, schema })
    const copies = filled.map((name) => `CREATE TABLE "${schema}_first"."${name}" AS TABLE "${schema}"."${name}";`)
    yield* Effect.promise(() =>
      pglite.exec(`CREATE SCHEMA "${schema}_first"; ${copies.join("\n")} ${clockText(schema)}`),
    )
    return schema
  })

const place = Effect.gen(function* () {
  const pglite = yield* Effect.promise(database)
  const schema = yield* Effect.acquireRelease(
    Effect.suspend(() => {
      const known = free.pop()
      return known === undefined ? newSchema(pglite) : Effect.succeed(known)
    }),
    (used) =>
      Effect.promise(async () => {
        await empty(pglite, used)
        free.push(used)
      }),
  )
  return onEffectClock(PostgresStores.layer({ pglite, schema, noteLanesEveryMs: 0 }), async (now) => {
    await pglite.query(`UPDATE "${schema}".test_clock SET now = $1`, [now])
  })
})

const pglite = { name: "PGlite", place, capabilities: { durable: true, multiProcess: true } } as const

// The suite of callers' transactions reads beside an open one, which a database with one connection cannot do.
storeConformance(pglite)
auditLogConformance(pglite)
compareWithMemory({ ...pglite, runs: 3 })
