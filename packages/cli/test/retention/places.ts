import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { PostgresBlobStore, PostgresStores } from "@kiln/adapter-postgres"
import { SqliteStores } from "@kiln/adapter-sqlite"
import type { BlobStore } from "@kiln/core/ports"
import { freshDatabase, withClient } from "@kiln/postgres-lab"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { DatabaseSync } from "node:sqlite"
import type { Stores } from "../../src/openStores.ts"
import { daysIn } from "./oneDay.ts"

/** Number of rows of each table, the size of all of them, and the files outside. */
export interface Measured {
  readonly rows: Readonly<Record<string, number>>
  readonly bytes: number
  readonly files: number
  /** The days of all canaries in rows, in files and in SQLite's log. */
  readonly canaries: ReadonlySet<number>
  /** The first day of all canaries in the bytes of the database file; `undefined` if they are not read. */
  readonly oldestResidue: number | undefined
}

/** Stores whose time is a test's. */
export interface Place extends AsyncDisposable {
  readonly layer: Layer.Layer<Stores | BlobStore, unknown>
  /** Lets time pass, and does what a server's maintenance does meanwhile. */
  readonly passDay: (day: number) => Effect.Effect<void>
  readonly measure: () => Promise<Measured>
  /** Whether it becomes smaller when data goes. Postgres keeps the space for new rows. */
  readonly returnsSpace: boolean
}

const dayMs = 86_400_000

const filesBelow = (directory: string): ReadonlyArray<string> =>
  existsSync(directory)
    ? readdirSync(directory, { recursive: true, encoding: "utf8" })
        .map((name) => join(directory, name))
        .filter((path) => statSync(path).isFile())
    : []

/** A directory in memory where there is one: a year has ten thousand commits, and nothing here needs to survive. */
const directoryInMemory = () => {
  const path = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "kiln-year-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

export const onSqlite = (): Promise<Place> => {
  const data = directoryInMemory()
  const path = join(data.path, "kiln.db")
  const measure = (): Measured => {
    const database = new DatabaseSync(path, { readOnly: true })
    const names = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'kiln_%'").all()
    const tables = names.map(({ name }) => ({
      name: String(name).replace("kiln_", ""),
      rows: database.prepare(`SELECT * FROM ${String(name)}`).all(),
    }))
    database.close()
    const files = filesBelow(join(data.path, "blobs"))
    const texts = [
      JSON.stringify(tables),
      ...[...files, `${path}-wal`].filter((each) => existsSync(each)).map((each) => readFileSync(each, "latin1")),
    ]
    return {
      rows: Object.fromEntries(tables.map(({ name, rows }) => [name, rows.length])),
      bytes: statSync(path).size,
      files: files.length,
      canaries: new Set(texts.flatMap(daysIn)),
      oldestResidue: Math.min(...daysIn(readFileSync(path, "latin1"))),
    }
  }
  return Promise.resolve({
    layer: Layer.merge(SqliteStores.layer({ path }), FileBlobStore.layer({ directory: data.path })),
    passDay: () => TestClock.adjust(dayMs),
    measure: () => Promise.resolve(measure()),
    returnsSpace: true,
    [Symbol.asyncDispose]: () => Promise.resolve(data[Symbol.dispose]()),
  })
}

/** Store time is a table's. Autovacuum goes by the real clock, so every week a VACUUM does what it would have done. */
export const onPostgres = async (): Promise<Place> => {
  const database = await freshDatabase()
  const { url } = database
  const options = { url, notifications: false }
  const run = (sql: string) => withClient(url, async (client) => void (await client.query(sql)))
  await Effect.runPromise(Effect.scoped(Layer.build(PostgresStores.layer(options))))
  await run(`CREATE TABLE public.test_clock (now bigint NOT NULL); INSERT INTO public.test_clock VALUES (0);
    CREATE OR REPLACE FUNCTION kiln.store_time() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT now FROM public.test_clock'`)
  const measure = () =>
    withClient(url, async (client): Promise<Measured> => {
      const tables = await client.query<{ readonly name: string; readonly bytes: string }>(
        `SELECT relname AS name, pg_total_relation_size(oid) AS bytes FROM pg_class
         WHERE relnamespace = 'kiln'::regnamespace AND relkind = 'r' ORDER BY 1`,
      )
      const rows: Record<string, number> = {}
      const canaries = new Set<number>()
      for (const { name } of tables.rows) {
        const content = name === "blob_chunks" ? "encode(content, 'escape')" : "row_to_json(t)::text"
        const found = await client.query<{ readonly text: string; readonly n: string }>(
          `SELECT count(*) AS n, coalesce(string_agg(DISTINCT substring(${content} from 'canary-day-[0-9]+;'), ' '), '') AS text FROM kiln.${name} AS t`,
        )
        rows[name] = Number(found.rows[0]?.n)
        for (const day of daysIn(found.rows[0]?.text ?? "")) canaries.add(day)
      }
      const bytes = tables.rows.reduce((sum, each) => sum + Number(each.bytes), 0)
      return { rows, bytes, files: rows["blobs"] ?? 0, canaries, oldestResidue: undefined }
    })
  return {
    layer: Layer.merge(PostgresStores.layer(options), PostgresBlobStore.layer({ url })),
    passDay: (day) =>
      Effect.promise(async () => {
        await run(`UPDATE public.test_clock SET now = ${day * dayMs}`)
        if (day % 7 === 0) await run("VACUUM")
      }),
    measure,
    returnsSpace: false,
    [Symbol.asyncDispose]: () => database.dispose(),
  }
}
