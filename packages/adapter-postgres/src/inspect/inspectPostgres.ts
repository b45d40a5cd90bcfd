import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { sql } from "kysely"
import type pg from "pg"
import { StoreUnavailable } from "@kiln/core/domain"
import type { MigrationStatus, QueueGroup, StoreInspection, UpkeepProblem } from "@kiln/core/ports"
import { commonChecks, dueRetention } from "@kiln/sql-store"
import { query, statement, storeTime } from "../Statement.ts"
import { readBoard } from "../board.ts"
import { Session } from "../connection/Session.ts"
import { postgresMigrations } from "../connection/openDatabase.ts"
import { connectionOptions, type PostgresOptions } from "../connection/options.ts"
import { cutOff, newClient } from "../connection/pool.ts"
import { findOrphans, named } from "../jobs/findJobs.ts"
import { retainedPart } from "../jobs/jobRow.ts"
import { isNotNeeded, readFinishedKinds } from "../jobs/retention.ts"
import { migrations } from "../migrations/index.ts"
import { readPlace } from "../place.ts"
import { runOn } from "../transactionsOf.ts"
import { schemaDrift } from "./schemaDrift.ts"

interface ServerRow {
  readonly autovacuum: string
  readonly fsync: string
  readonly fullPageWrites: string
}

interface TableRow {
  readonly name: string
  readonly dead: number
  readonly live: number
  readonly excluded: boolean
}

interface SessionRow {
  readonly pid: number
  readonly program: string
  readonly minutes: number
}

const serverSettings = `SELECT current_setting('autovacuum') AS autovacuum, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS "fullPageWrites"`

/** Dead rows are up to the statistics, which lag a little. */
const tables = `SELECT named.relname AS name, coalesce(n_dead_tup, 0) AS dead, coalesce(n_live_tup, 0) AS live,
    coalesce(EXISTS (SELECT FROM unnest(named.reloptions) AS option WHERE option IN ('autovacuum_enabled=false', 'autovacuum_enabled=off')), false) AS excluded
  FROM pg_class AS named LEFT JOIN pg_stat_all_tables AS counted ON counted.relid = named.oid
  WHERE named.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND named.relkind = 'r' ORDER BY 1`

/** A role without `pg_monitor` sees its own sessions only. */
const openTransactions = `SELECT pid, coalesce(nullif(application_name, ''), 'unnamed') AS program,
    floor(extract(epoch FROM clock_timestamp() - xact_start) / 60)::int AS minutes
  FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL AND xact_start <= clock_timestamp() - $1 * interval '1 minute'
  ORDER BY xact_start LIMIT 5`

interface RoleRow {
  readonly role: string
  readonly database: string
  readonly isStandby: boolean
  /** Where the server found that transactions are read-only by default, as `pg_settings` names it; `null` if they are not. */
  readonly readOnlyBy: string | null
  /** Tables, sequences and functions that the role may not use as the service does. */
  readonly denied: ReadonlyArray<string>
}

/** The rights that docs/guides/postgres.md grants to a service's role. */
const roleRights = `SELECT quote_ident(current_user) AS role, quote_ident(current_database()) AS database, pg_is_in_recovery() AS "isStandby",
    (SELECT source FROM pg_settings WHERE name = 'default_transaction_read_only' AND setting = 'on') AS "readOnlyBy",
    to_json(ARRAY(SELECT relname::text FROM pg_class, (SELECT oid FROM pg_namespace WHERE nspname = $1) AS own
      WHERE relnamespace = own.oid AND (relkind = 'S' AND NOT has_sequence_privilege(pg_class.oid, 'USAGE') OR relkind = 'r' AND NOT (
        CASE relname WHEN 'migrations' THEN has_table_privilege(pg_class.oid, 'SELECT')
        WHEN 'charges' THEN has_table_privilege(pg_class.oid, 'SELECT') AND has_table_privilege(pg_class.oid, 'INSERT')
        ELSE has_table_privilege(pg_class.oid, 'SELECT') AND has_table_privilege(pg_class.oid, 'INSERT')
          AND has_table_privilege(pg_class.oid, 'UPDATE') AND has_table_privilege(pg_class.oid, 'DELETE') END))
      UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
        AND NOT has_function_privilege(pg_proc.oid, 'EXECUTE') ORDER BY 1)) AS denied`

interface LockRow {
  readonly pid: number
  readonly program: string
  readonly table: string
  readonly mode: string
  readonly state: string
  /** `null` if this role may not see it. */
  readonly seconds: number | null
}

/** Sessions that keep the whole of a table from being written. kiln itself takes such locks for moments only. */
const tableLocks = `SELECT pid, coalesce(nullif(application_name, ''), 'unnamed') AS program, relname AS table, mode,
    coalesce(state, 'unknown') AS state, floor(extract(epoch FROM clock_timestamp() - xact_start))::int AS seconds
  FROM pg_locks JOIN pg_class ON pg_class.oid = pg_locks.relation LEFT JOIN pg_stat_activity USING (pid)
  WHERE granted AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relkind = 'r' AND pid <> pg_backend_pid()
    AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    AND coalesce(xact_start <= clock_timestamp() - $2 * interval '1 second', true)
  ORDER BY xact_start, relname LIMIT 5`

/** Values up to which a condition is tolerated. */
export interface UpkeepTolerance {
  /** Dead rows in a table. More are a problem if they are the majority. */
  readonly deadRows: number
  /** Minutes for which a transaction may be open. */
  readonly openMinutes: number
  /** Seconds for which a transaction may lock a table. */
  readonly lockSeconds: number
}

const tolerated: UpkeepTolerance = { deadRows: 100_000, openMinutes: 60, lockSeconds: 3 }

const ofServer = ({ autovacuum, fsync, fullPageWrites }: ServerRow): ReadonlyArray<UpkeepProblem> => [
  ...(autovacuum === "on"
    ? []
    : [
        {
          problem: "autovacuum is off, so the tables grow with every job",
          remedy: "as a superuser: ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()",
          isUrgent: false,
        },
      ]),
  ...(["fsync", "full_page_writes"] as const)
    .filter((setting) => (setting === "fsync" ? fsync : fullPageWrites) !== "on")
    .map((setting) => ({
      problem: `${setting} is off, so a crash of the server's machine can destroy the database`,
      remedy: `as a superuser: ALTER SYSTEM SET ${setting} = on; SELECT pg_reload_conf()`,
      isUrgent: true,
    })),
]

const ofTable =
  (schema: string, deadRows: number) =>
  ({ dead, excluded, live, name }: TableRow): ReadonlyArray<UpkeepProblem> => {
    const table = `"${schema}".${name}`
    if (excluded)
      return [
        {
          problem: `autovacuum skips the table ${table}`,
          remedy: `ALTER TABLE ${table} RESET (autovacuum_enabled)`,
          isUrgent: false,
        },
      ]
    return dead > Math.max(deadRows, live)
      ? [
          {
            problem: `${dead} of ${dead + live} rows in ${table} are dead`,
            remedy: `VACUUM (VERBOSE, ANALYZE) ${table}`,
            isUrgent: false,
          },
        ]
      : []
  }

const ofSession = ({ minutes, pid, program }: SessionRow): UpkeepProblem => ({
  problem: `the program ${program} has kept a transaction open for ${minutes} minutes, so no dead row can be removed`,
  remedy: `SELECT pg_terminate_backend(${pid}), and set idle_in_transaction_session_timeout for its role`,
  isUrgent: false,
})

const readOnly = "default_transaction_read_only"
/** Sessions that are read-only themselves cannot change the setting of a role or a database. */
const writing = `SET ${readOnly} = off`

/** The remedy is for the place of the setting: a more specific one of the role would outlast what stopped all writes, such as a full disk. */
const ofReadOnly = ({ database, readOnlyBy, role }: RoleRow): ReadonlyArray<UpkeepProblem> => {
  if (readOnlyBy === null) return []
  const found = (whose: string, remedy: string): ReadonlyArray<UpkeepProblem> => [
    { problem: `transactions of ${whose} are read-only, so kiln cannot serve with it`, remedy, isUrgent: true },
  ]
  switch (readOnlyBy) {
    case "database user":
      return found(
        `the role ${role} in the database ${database}`,
        `${writing}; ALTER ROLE ${role} IN DATABASE ${database} RESET ${readOnly}`,
      )
    case "database":
      return found(`the database ${database}`, `${writing}; ALTER DATABASE ${database} RESET ${readOnly}`)
    case "configuration file":
      return found(
        "the server",
        `once it has room and may write again, as a superuser: ALTER SYSTEM SET ${readOnly} = off; SELECT pg_reload_conf()`,
      )
    default:
      return found(
        `the role ${role}`,
        `ALTER ROLE ${role} SET ${readOnly} = off, or set DATABASE_URL to the role of the service`,
      )
  }
}

const ofRole =
  (schema: string) =>
  (row: RoleRow): ReadonlyArray<UpkeepProblem> => {
    const { denied, isStandby, role } = row
    const [first, ...others] = denied
    const grants = [
      `GRANT USAGE ON SCHEMA "${schema}" TO ${role}`,
      `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "${schema}" TO ${role}`,
      `GRANT USAGE ON ALL SEQUENCES IN SCHEMA "${schema}" TO ${role}`,
      `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "${schema}" TO ${role}`,
    ]
    return [
      ...(isStandby
        ? [
            {
              problem: "this server is a standby, which accepts no writes",
              remedy: "set DATABASE_URL to the primary server",
              isUrgent: true,
            },
          ]
        : []),
      ...ofReadOnly(row),
      ...(first === undefined
        ? []
        : [
            {
              problem: `the role ${role} lacks rights on "${schema}".${first}${others.length === 0 ? "" : ` and ${others.length} more`}, so kiln cannot serve with it`,
              remedy: `as the owner of the schema: ${grants.join("; ")}; or set DATABASE_URL to the role of the service`,
              isUrgent: true,
            },
          ]),
    ]
  }

const ofLock =
  (schema: string) =>
  ({ mode, pid, program, seconds, state, table }: LockRow): UpkeepProblem => ({
    problem: `the program ${program} (session ${pid}, ${state}) has locked "${schema}".${table}${seconds === null ? "" : ` for ${seconds} s`} (${mode}): steps that need the table wait or fail`,
    remedy: `let it end, or end it: SELECT pg_terminate_backend(${pid})`,
    isUrgent: true,
  })

/** Finds what blocks the tables or lets them grow, and settings that endanger committed data. */
export const findUpkeep = async (
  client: Pick<pg.ClientBase, "query">,
  schema: string,
  { deadRows, lockSeconds, openMinutes }: UpkeepTolerance = tolerated,
): Promise<ReadonlyArray<UpkeepProblem>> => {
  const server = await client.query<ServerRow>(serverSettings)
  const counted = await client.query<TableRow>(tables, [schema])
  const sessions = await client.query<SessionRow>(openTransactions, [openMinutes])
  const roles = await client.query<RoleRow>(roleRights, [schema])
  const locks = await client.query<LockRow>(tableLocks, [schema, lockSeconds])
  return [
    ...roles.rows.flatMap(ofRole(schema)),
    ...locks.rows.map(ofLock(schema)),
    ...server.rows.flatMap(ofServer),
    ...counted.rows.flatMap(ofTable(schema, deadRows)),
    ...sessions.rows.map(ofSession),
  ]
}

const state = sql<QueueGroup["state"]>`case
  when not queue.held then case when queue.claimable_at <= ${storeTime} then 'ready' else 'delayed' end
  when queue.claimable_at <= ${storeTime} then 'lapsed' else 'running' end`

const groupsOfQueue = statement(() =>
  query
    .selectFrom("queue")
    .select((of) => [
      "queue.kind",
      "queue.mode",
      state.as("state"),
      of.fn.countAll<number>().as("count"),
      sql<number>`greatest(${storeTime} - min(queue.claimable_at), 0)`.as("oldestMs"),
    ])
    .groupBy([sql.ref("queue.kind"), sql.ref("queue.mode"), sql`3`])
    .orderBy(sql`1`)
    .orderBy(sql`2`)
    .orderBy(sql`3`),
)

const readDueRetention = dueRetention({ table: "results", seq: "job_seq", retained: retainedPart, isNotNeeded })

const countQueue = (session: Session): Promise<ReadonlyArray<QueueGroup>> =>
  session.all(groupsOfQueue, {}) as Promise<ReadonlyArray<QueueGroup>>

/** Opens a store for inspection, also while servers use it. Returns `undefined` if the schema does not exist. */
export const inspectPostgres = (
  options: PostgresOptions,
): Effect.Effect<StoreInspection | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const { schema = "kiln" } = options
    const client = yield* Effect.acquireRelease(connect(options), goodbye)
    const { rowCount } = yield* ask(() => client.query("SELECT FROM pg_namespace WHERE nspname = $1", [schema]))
    return rowCount === 0 ? undefined : inspectionOf(client, options, postgresMigrations.status(options))
  })

/** Milliseconds to wait for a server that does not close the connection. */
const goodbyeMs = 1_000

const goodbye = (client: pg.Client): Effect.Effect<void> =>
  Effect.promise(() => client.end().catch(() => undefined)).pipe(
    Effect.interruptible,
    Effect.timeoutOrElse({ duration: goodbyeMs, orElse: () => Effect.sync(() => cutOff(client)) }),
  )

const inspectionOf = (
  client: pg.Client,
  options: PostgresOptions,
  status: Effect.Effect<MigrationStatus, StoreUnavailable>,
): StoreInspection => {
  const wire = connectionOptions(options)
  const session = new Session(client, { ...wire, prepared: false })
  return {
    ...commonChecks((_, program) => ask(() => runOn(session, program)), named),
    migrations: status,
    schemaDrift: Effect.flatMap(status, ({ applied, unknown }) => {
      const done = new Set(applied.map(({ name }) => name))
      const known = migrations.filter(({ name }) => done.has(name))
      return ask(() => schemaDrift(session, wire.schema, known, unknown.length > 0))
    }),
    damage: ask(() => failedChecksums(client)),
    dueRetention: (periods) =>
      ask(async () => {
        const kept = await readFinishedKinds(session, "kept")
        const expired = await readFinishedKinds(session, "expired")
        const deleted = await readFinishedKinds(session, "deleted")
        return runOn(session, (tx) => readDueRetention(tx, periods, { kept, expired, deleted }))
      }),
    upkeep: ask(() => findUpkeep(client, wire.schema)),
    countQueue: ask(() => countQueue(session)),
    readBoard: ask(() => readBoard(session)),
    readPlace: options.allowCopies === true ? Effect.undefined : ask(() => readPlace(session, wire)),
    findOrphans: (blobs) => ask(() => findOrphans(session, blobs)),
  }
}

/** The server verifies the checksums of pages when it reads them, and counts failures. */
const failedChecksums = async (client: pg.Client): Promise<ReadonlyArray<string>> => {
  const { rows } = await client.query<{ readonly failures: number | null }>(
    "SELECT checksum_failures AS failures FROM pg_stat_database WHERE datname = current_database()",
  )
  const failures = rows[0]?.failures ?? 0
  return failures > 0 ? [`${failures} pages failed their checksum`] : []
}

const connect = (options: PostgresOptions): Effect.Effect<pg.Client, StoreUnavailable> =>
  ask(async () => {
    const client = newClient(connectionOptions(options), "kiln doctor")
    // Errors of an idle connection are events, and an unhandled one would end the process.
    client.on("error", () => undefined)
    await client.connect()
    return client
  })

const ask = <A>(work: () => Promise<A>): Effect.Effect<A, StoreUnavailable> =>
  Effect.tryPromise({ try: work, catch: (cause) => new StoreUnavailable({ operation: "inspect", cause }) })
