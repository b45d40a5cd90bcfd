import type { ClientBase } from "pg"
import type { UpkeepProblem } from "@kiln/core/ports"

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

/** Values up to which a condition is tolerated. */
export interface UpkeepTolerance {
  /** Dead rows in a table. More are a problem if they are the majority. */
  readonly deadRows: number
  /** Minutes for which a transaction may be open. */
  readonly openMinutes: number
}

const tolerated: UpkeepTolerance = { deadRows: 100_000, openMinutes: 60 }

const ofServer = ({ autovacuum, fsync, fullPageWrites }: ServerRow): ReadonlyArray<UpkeepProblem> => [
  ...(autovacuum === "on"
    ? []
    : [
        {
          problem: "autovacuum is off, so the tables grow with every job",
          remedy: "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()",
          endangersData: false,
        },
      ]),
  ...(["fsync", "full_page_writes"] as const)
    .filter((setting) => (setting === "fsync" ? fsync : fullPageWrites) !== "on")
    .map((setting) => ({
      problem: `${setting} is off, so a crash of the server's machine can destroy the database`,
      remedy: `ALTER SYSTEM SET ${setting} = on; SELECT pg_reload_conf()`,
      endangersData: true,
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
          endangersData: false,
        },
      ]
    return dead > Math.max(deadRows, live)
      ? [
          {
            problem: `${dead} of ${dead + live} rows in ${table} are dead`,
            remedy: `VACUUM (VERBOSE, ANALYZE) ${table}`,
            endangersData: false,
          },
        ]
      : []
  }

const ofSession = ({ minutes, pid, program }: SessionRow): UpkeepProblem => ({
  problem: `the program ${program} has kept a transaction open for ${minutes} minutes, so no dead row can be removed`,
  remedy: `SELECT pg_terminate_backend(${pid}), and set idle_in_transaction_session_timeout for its role`,
  endangersData: false,
})

/** Finds what lets the tables grow, and settings that endanger committed data. */
export const findUpkeep = async (
  client: Pick<ClientBase, "query">,
  schema: string,
  { deadRows, openMinutes }: UpkeepTolerance = tolerated,
): Promise<ReadonlyArray<UpkeepProblem>> => {
  const server = await client.query<ServerRow>(serverSettings)
  const counted = await client.query<TableRow>(tables, [schema])
  const sessions = await client.query<SessionRow>(openTransactions, [openMinutes])
  return [
    ...server.rows.flatMap(ofServer),
    ...counted.rows.flatMap(ofTable(schema, deadRows)),
    ...sessions.rows.map(ofSession),
  ]
}
