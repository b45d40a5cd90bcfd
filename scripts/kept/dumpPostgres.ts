import pg from "pg"
import { postgresMigrations } from "@kiln/adapter-postgres"
import * as Effect from "effect/Effect"

/**
 * Writes the schema `kiln` as statements that create it in an empty database: its migrations, and all rows. The first line says
 * when, so that a test can move its times.
 */
export const dumpPostgres = async (url: string): Promise<string> => {
  // In a schema that does not exist, all are pending.
  const { pending } = await Effect.runPromise(postgresMigrations.status({ url, schema: "kiln_missing" }))
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const read = async <Row>(sql: string, values: Array<unknown> = []) =>
    (await client.query(sql, values)).rows as Array<Row>
  const tables = await read<{ name: string; columns: Array<string> }>(
    `SELECT relname AS name, array_agg(quote_ident(attname) ORDER BY attnum) AS columns
     FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
     WHERE relnamespace = 'kiln'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
     GROUP BY relname ORDER BY relname`,
  )
  const rows: Array<string> = []
  for (const { columns, name } of tables) {
    const values = columns.map((column) => `quote_nullable(${column}::text)`).join(" || ', ' || ")
    const found = await read<{ line: string }>(
      `SELECT 'INSERT INTO kiln.${name} (${columns.join(", ")}) OVERRIDING SYSTEM VALUE VALUES (' || ${values} || ');' AS line FROM kiln.${name}`,
    )
    rows.push(...found.map(({ line }) => line))
  }
  const sequences = await read<{ name: string; value: string }>(
    "SELECT sequencename AS name, last_value AS value FROM pg_sequences WHERE schemaname = 'kiln' AND last_value IS NOT NULL",
  )
  await client.end()
  return [
    `-- kept at ${Date.now()}`,
    "CREATE SCHEMA kiln;",
    "CREATE TABLE kiln.migrations (name text PRIMARY KEY, applied_at bigint NOT NULL);",
    ...pending.map(({ sql }) => sql),
    // Triggers judge changes, not rows that are kept.
    "SET session_replication_role = replica;",
    `TRUNCATE ${tables.map(({ name }) => `kiln.${name}`).join(", ")};`,
    ...rows,
    ...sequences.map(({ name, value }) => `SELECT setval('kiln."${name}"', ${value});`),
    "SET session_replication_role = origin;",
  ].join("\n")
}
