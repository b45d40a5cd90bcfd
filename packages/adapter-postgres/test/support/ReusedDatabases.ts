import { Effect, type Scope } from "effect"
import pg from "pg"
import { freshDatabase, type FreshDatabase } from "@kiln/postgres-lab"

/** A database that one test has to itself, and a superuser's connection to it. */
export interface ReusedDatabase {
  readonly url: string
  readonly client: pg.Client
}

interface Kept extends ReusedDatabase {
  readonly database: FreshDatabase
  /** SQL that ends the sessions of a test and restores the template's rows and sequences. */
  readonly reset: string
}

/**
 * Copies of a template. A test that ends resets its copy for the next test, which takes a tenth of the time of a new one.
 * Tests that change the schema need their own database.
 */
export class ReusedDatabases {
  readonly #makeTemplate: () => Promise<string>
  #template: Promise<string> | undefined
  readonly #idle: Array<Kept> = []

  constructor(makeTemplate: () => Promise<string>) {
    this.#makeTemplate = makeTemplate
  }

  readonly next: Effect.Effect<ReusedDatabase, never, Scope.Scope> = Effect.acquireRelease(
    Effect.promise(async () => this.#idle.pop() ?? (await copy(await (this.#template ??= this.#makeTemplate())))),
    (kept) =>
      Effect.promise(async () => {
        await kept.client.query(kept.reset)
        this.#idle.push(kept)
      }),
  )

  /** Drops those that no test holds. */
  readonly dispose = async (): Promise<void> => {
    for (const { client, database } of this.#idle.splice(0)) {
      await client.end()
      await database.dispose()
    }
  }
}

const copy = async (template: string): Promise<Kept> => {
  const database = await freshDatabase({ template })
  // Pipelined, because verbs that run at the same time each set the clock.
  const client = new pg.Client({ connectionString: database.url, pipeline: true })
  client.on("error", () => undefined)
  await client.connect()
  // Triggers and foreign keys would refuse the reset, or add rows to it.
  await client.query("SET session_replication_role = replica")
  return { url: database.url, database, client, reset: await resetText(client) }
}

const others = `FROM pg_stat_activity
  WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`

/** Ends the other sessions and waits until they are gone: one that is still committing would leave rows. */
const endSessions = `DO $$ BEGIN
  WHILE EXISTS (SELECT ${others}) LOOP
    PERFORM pg_terminate_backend(pid) ${others};
    PERFORM pg_sleep(0.001);
    PERFORM pg_stat_clear_snapshot();
  END LOOP;
END $$`

/** Copies the rows that the migrations insert to another schema, and returns the SQL that restores them. */
const resetText = async (client: pg.Client): Promise<string> => {
  const named = async (sql: string) =>
    (await client.query<{ name: string }>(`${sql} WHERE schemaname = 'kiln'`)).rows.map(({ name }) => name)
  const sequences = await named("SELECT sequencename AS name FROM pg_sequences")
  const tables = await named("SELECT tablename AS name FROM pg_tables")
  const filled: Array<string> = []
  await client.query("CREATE SCHEMA first_rows")
  for (const table of tables) {
    const { rowCount } = await client.query(`CREATE TABLE first_rows."${table}" AS TABLE kiln."${table}"`)
    if (rowCount !== 0) filled.push(table)
  }
  return [
    endSessions,
    ...tables.map((table) => `DELETE FROM kiln."${table}"`),
    ...filled.map((table) => `INSERT INTO kiln."${table}" OVERRIDING SYSTEM VALUE TABLE first_rows."${table}"`),
    ...sequences.map((sequence) => `ALTER SEQUENCE kiln."${sequence}" RESTART`),
  ].join(";")
}
