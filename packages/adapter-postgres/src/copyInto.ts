import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import pg from "pg"
import { StoreUnavailable } from "@kiln/core/domain"
import { beginAnywhere } from "./Connections.ts"

/** A value of a row that is copied. */
export type CopyValue = string | number | boolean | null | Uint8Array
export type CopyRow = Readonly<Record<string, CopyValue>>

/** Rows for one table of this store. */
interface Placed {
  readonly table: string
  readonly rows: ReadonlyArray<CopyRow>
}

/** What stands in a job's own row only once it has ended. */
const unended = {
  status: null,
  token: null,
  ran_ms: null,
  waited_ms: null,
  attempts: null,
  failures: null,
  lost_workers: null,
  finished_at: null,
} as const

/** What a job's two rows have under the same name. */
const shared = [
  "id",
  "project_id",
  "kind",
  "mode",
  "priority",
  "created_at",
  "queue_limit_ms",
  "run_limit_ms",
  "status",
  "token",
  "ran_ms",
  "waited_ms",
  "attempts",
  "failures",
  "lost_workers",
] as const

const isFinished = ({ status }: CopyRow): boolean => status === "done" || status === "failed"

/** What only an unfinished job has. */
const queued = ["lane_id", "held", "claimable_at", "deadline_at", "phase_started_at"] as const

const only = (row: CopyRow, names: ReadonlyArray<string>): CopyRow =>
  Object.fromEntries(names.map((name) => [name, row[name] ?? null]))

/** The row that every job keeps. */
const jobRow = (row: CopyRow): CopyRow => {
  const job = Object.fromEntries(Object.entries(row).filter(([name]) => !queued.some((moved) => moved === name)))
  return isFinished(row) ? job : { ...job, ...unended }
}

const queueRow = (row: CopyRow): CopyRow => ({ ...only(row, [...shared, ...queued]), job_seq: row["seq"] ?? null })

/** Where rows of a table stand here: elsewhere than the others, a job is two rows until it ends. */
const placesOf = (table: string, rows: ReadonlyArray<CopyRow>): ReadonlyArray<Placed> =>
  table === "jobs"
    ? [
        { table, rows: rows.map(jobRow) },
        { table: "queue", rows: rows.filter((row) => !isFinished(row)).map(queueRow) },
      ]
    : [{ table, rows }]

/** The target holds something already. */
export class CopyTargetNotEmpty extends Schema.TaggedError<CopyTargetNotEmpty>()("CopyTargetNotEmpty", {
  tables: Schema.Array(Schema.String),
}) {}

/** What arrived is not what was sent. Nothing was kept. */
export class CopyCountsDiffer extends Schema.TaggedError<CopyCountsDiffer>()("CopyCountsDiffer", {
  table: Schema.String,
  sent: Schema.Number,
  arrived: Schema.Number,
}) {}

/** The one transaction of a copy. What does not come to `commit` leaves nothing behind. */
export interface CopyTarget {
  /** Writes rows as they are, of the tables in an order in which nothing refers to what comes later. */
  readonly write: (table: string, rows: ReadonlyArray<CopyRow>) => Effect.Effect<void, StoreUnavailable>
  /** Compares these counts, and those of what was written, with what stands there; has ids go on after the highest; commits. */
  readonly commit: (
    counts: ReadonlyArray<{ readonly table: string; readonly count: number }>,
  ) => Effect.Effect<void, StoreUnavailable | CopyCountsDiffer>
}

/** Filled by the migrations: what was applied, and tables of one row, which the copy brings along. */
const applied = "migrations"
const rowsOfState = ["fairness", "closed_ledger"]

/**
 * Begins to copy into a migrated schema that holds nothing, and keeps writers out of it until the scope closes. Needs
 * to own the tables: the rules about how a row may begin and change do not apply to rows that come as they are.
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
    // However many rows there are, and however long the source takes to hand them out; but others let go, or it is refused.
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
          placesOf(table, rows),
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
          // Plans are made from the first claim on, and not for empty tables.
          yield* send(`ANALYZE ${tables.map(inSchema).join(", ")}`)
          yield* send("COMMIT")
        }),
    } satisfies CopyTarget
  })

type Send = (text: string, values?: ReadonlyArray<unknown>) => Effect.Effect<pg.QueryResult, StoreUnavailable>

/** Every table of the schema but the note of the migrations. */
const tablesOf = (send: Send, schema: string): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
  Effect.map(
    send(
      "SELECT relname AS name FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND relname <> $2 ORDER BY 1",
      [`"${schema}"`, applied],
    ),
    ({ rows }) => (rows as ReadonlyArray<{ readonly name: string }>).map(({ name }) => name),
  )

/** All rows of a page in one statement; a column that has no place here makes it fail. */
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

/** Bytes as the server reads them in a text. */
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

/** Rows came with their numbers; the next one that is made here gets one of its own. */
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
    // What happens to an idle connection comes as an event, and unheard it would end the process.
    client.on("error", () => undefined)
    await client.connect()
    return client
  })

/** Closing rolls back what was not committed. */
const disconnect = (client: pg.Client): Promise<void> => client.end().catch(() => undefined)

const run = <A>(work: () => Promise<A>): Effect.Effect<A, StoreUnavailable> =>
  Effect.tryPromise({ try: work, catch: (cause) => new StoreUnavailable({ operation: "copy", cause }) })
