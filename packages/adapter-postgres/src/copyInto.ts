import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import pg from "pg"
import { StoreUnavailable } from "@kiln/core/domain"
import { beginAnywhere } from "./connection/pool.ts"

/** A value of a row that is copied. */
export type CopyValue = string | number | boolean | null | Uint8Array
export type CopyRow = Readonly<Record<string, CopyValue>>

interface TargetRows {
  readonly table: string
  readonly rows: ReadonlyArray<CopyRow>
}

/** Columns of a job that its row in the queue or its result repeats. */
const repeated = ["project_id", "kind", "mode", "created_at"] as const

/** Columns of what a job has become, unfinished or finished. */
const progress = ["status", "token", "ran_ms", "waited_ms", "attempts", "failures", "lost_workers"] as const

/** Columns of unfinished jobs only. */
const unfinishedOnly = ["lane_id", "held", "claimable_at", "deadline_at", "phase_started_at"] as const

/** Columns of finished jobs only. */
const finishedOnly = ["finished_at", "error_code", "warning_code", "retained", "charge", "output"] as const

const isFinished = ({ status }: CopyRow): boolean => status === "done" || status === "failed"

const only = (row: CopyRow, names: ReadonlyArray<string>): CopyRow =>
  Object.fromEntries(names.map((name) => [name, row[name] ?? null]))

const notInJobs: ReadonlySet<string> = new Set([...progress, ...unfinishedOnly, ...finishedOnly])

const jobRow = (row: CopyRow): CopyRow =>
  Object.fromEntries(Object.entries(row).filter(([name]) => !notInJobs.has(name)))

const queueRow = (row: CopyRow): CopyRow => ({
  ...only(row, ["id", "priority", "queue_limit_ms", "run_limit_ms", ...repeated, ...progress, ...unfinishedOnly]),
  job_seq: row["seq"] ?? null,
})

const resultRow = (row: CopyRow): CopyRow => ({
  ...only(row, [...repeated, ...progress, ...finishedOnly]),
  job_seq: row["seq"] ?? null,
  job_id: row["id"] ?? null,
})

/** Maps rows to the tables of this store: a job has a row in `jobs`, and one in `queue` or, when it has ended, in `results`. */
const targetRowsOf = (table: string, rows: ReadonlyArray<CopyRow>): ReadonlyArray<TargetRows> =>
  table === "jobs"
    ? [
        { table, rows: rows.map(jobRow) },
        { table: "queue", rows: rows.filter((row) => !isFinished(row)).map(queueRow) },
        { table: "results", rows: rows.filter(isFinished).map(resultRow) },
      ]
    : [{ table, rows }]

/** The target is not empty. */
export class CopyTargetNotEmpty extends Data.TaggedError("CopyTargetNotEmpty")<{
  readonly tables: ReadonlyArray<string>
}> {}

/** The row counts differ. Nothing was kept. */
export class CopyCountsDiffer extends Data.TaggedError("CopyCountsDiffer")<{
  readonly table: string
  readonly sent: number
  readonly arrived: number
}> {}

/** The transaction of a copy. Without `commit` it leaves nothing behind. */
export interface CopyTarget {
  /** Writes rows unchanged. Tables must come in the order of their references. */
  readonly write: (table: string, rows: ReadonlyArray<CopyRow>) => Effect.Effect<void, StoreUnavailable>
  /** Compares these counts and those of the written rows with the tables, advances the id sequences, and commits. */
  readonly commit: (
    counts: ReadonlyArray<{ readonly table: string; readonly count: number }>,
  ) => Effect.Effect<void, StoreUnavailable | CopyCountsDiffer>
}

/** Tables filled by the migrations: the applied ones, and single-row tables, which the copy replaces. */
const applied = "migrations"
const rowsOfState = ["fairness", "closed_ledger"]

/**
 * Begins a copy into a migrated, empty schema and blocks writers until the scope closes. Requires ownership of the tables,
 * because triggers on how rows begin and change are disabled meanwhile.
 */
export const openCopyTarget = (options: {
  readonly url: string
  readonly schema?: string | undefined
}): Effect.Effect<CopyTarget, StoreUnavailable | CopyTargetNotEmpty, Scope.Scope> =>
  Effect.gen(function* () {
    const { schema = "kiln", url } = options
    const client = yield* Effect.acquireRelease(connect(url), (connected) =>
      Effect.promise(() => disconnect(connected)),
    )
    const send = (text: string, values: ReadonlyArray<unknown> = []) => run(() => client.query(text, [...values]))
    const inSchema = (table: string) => `"${schema}"."${table}"`
    const sent = new Map<string, number>()
    yield* send(beginAnywhere)
    // A copy may take long, but waits for locks only briefly.
    yield* send("SET LOCAL lock_timeout = '10s'")
    for (const limit of ["statement_timeout", "idle_in_transaction_session_timeout"])
      yield* send(`SET LOCAL ${limit} = 0`)
    const tables = yield* tablesOf(send, schema)
    yield* send(`LOCK TABLE ${tables.map(inSchema).join(", ")} IN SHARE ROW EXCLUSIVE MODE`)
    const occupied = yield* Effect.filter(tables, (table) =>
      rowsOfState.includes(table)
        ? Effect.succeed(false)
        : Effect.map(send(`SELECT FROM ${inSchema(table)} LIMIT 1`), ({ rowCount }) => (rowCount ?? 0) > 0),
    )
    if (occupied.length > 0) return yield* new CopyTargetNotEmpty({ tables: occupied })
    const triggers = (word: "DISABLE" | "ENABLE") =>
      Effect.forEach(tables, (table) => send(`ALTER TABLE ${inSchema(table)} ${word} TRIGGER USER`), { discard: true })
    yield* triggers("DISABLE")
    for (const table of rowsOfState) yield* send(`DELETE FROM ${inSchema(table)}`)
    return {
      write: (table, rows) =>
        Effect.forEach(
          targetRowsOf(table, rows),
          (place) => {
            sent.set(place.table, (sent.get(place.table) ?? 0) + place.rows.length)
            return insert(send, inSchema(place.table), place.rows)
          },
          { discard: true },
        ),
      commit: (counts) =>
        Effect.gen(function* () {
          const expected = [...counts, ...[...sent].map(([table, count]) => ({ table, count }))]
          for (const { count, table } of expected) yield* compare(send, table, inSchema(table), count)
          yield* continueAfterHighest(send, schema)
          yield* triggers("ENABLE")
          yield* send(`SELECT "${schema}".recount_kept_bytes()`)
          // Without statistics, the first plans would be made for empty tables.
          yield* send(`ANALYZE ${tables.map(inSchema).join(", ")}`)
          yield* send("COMMIT")
        }),
    } satisfies CopyTarget
  })

type Send = (text: string, values?: ReadonlyArray<unknown>) => Effect.Effect<pg.QueryResult, StoreUnavailable>

/** Every table of the schema except `migrations`. */
const tablesOf = (send: Send, schema: string): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
  Effect.map(
    send(
      "SELECT relname AS name FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND relname <> $2 ORDER BY 1",
      [`"${schema}"`, applied],
    ),
    ({ rows }) => (rows as ReadonlyArray<{ readonly name: string }>).map(({ name }) => name),
  )

/** Inserts a page of rows in one statement. Fails for unknown columns. */
const insert = (send: Send, table: string, rows: ReadonlyArray<CopyRow>): Effect.Effect<void, StoreUnavailable> => {
  const [first] = rows
  if (first === undefined) return Effect.void
  const columns = Object.keys(first)
    .map((name) => `"${name}"`)
    .join(", ")
  return Effect.asVoid(
    send(`INSERT INTO ${table} (${columns}) SELECT ${columns} FROM json_populate_recordset(NULL::${table}, $1::json)`, [
      JSON.stringify(rows, (_name, value: CopyValue) => (value instanceof Uint8Array ? hexOf(value) : value)),
    ]),
  )
}

/** Formats bytes as text for the server. */
const hexOf = (bytes: Uint8Array): string => `\\x${Buffer.from(bytes).toString("hex")}`

const compare = (
  send: Send,
  name: string,
  table: string,
  sent: number,
): Effect.Effect<void, StoreUnavailable | CopyCountsDiffer> =>
  Effect.gen(function* () {
    const { rows } = yield* send(`SELECT count(*)::float8 AS count FROM ${table}`)
    const [{ count: arrived } = { count: -1 }] = rows as ReadonlyArray<{ readonly count: number }>
    if (arrived !== sent) return yield* new CopyCountsDiffer({ table: name, sent, arrived })
  })

/** Copied rows keep their numbers, so sequences continue after the highest. */
const continueAfterHighest = (send: Send, schema: string): Effect.Effect<void, StoreUnavailable> =>
  Effect.gen(function* () {
    const { rows } = yield* send(
      "SELECT table_name AS table, column_name AS column FROM information_schema.columns WHERE table_schema = $1 AND is_identity = 'YES'",
      [schema],
    )
    for (const { column, table } of rows as ReadonlyArray<{ readonly table: string; readonly column: string }>)
      yield* send(
        `SELECT setval(pg_get_serial_sequence('"${schema}"."${table}"', $1), max("${column}")) FROM "${schema}"."${table}" HAVING max("${column}") IS NOT NULL`,
        [column],
      )
  })

const connect = (url: string): Effect.Effect<pg.Client, StoreUnavailable> =>
  run(async () => {
    const client = new pg.Client({
      connectionString: url,
      application_name: "kiln copy",
      connectionTimeoutMillis: 10_000,
    })
    // Errors of an idle connection are events, and an unhandled one would end the process.
    client.on("error", () => undefined)
    await client.connect()
    return client
  })

/** Closing rolls back an open transaction. */
const disconnect = (client: pg.Client): Promise<void> => client.end().catch(() => undefined)

const run = <A>(work: () => Promise<A>): Effect.Effect<A, StoreUnavailable> =>
  Effect.tryPromise({ try: work, catch: (cause) => new StoreUnavailable({ operation: "copy", cause }) })
