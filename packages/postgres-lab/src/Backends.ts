import { withClient } from "./withClient.ts"

/** A client's connection as seen by the server. */
export interface Backend {
  readonly pid: number
  readonly applicationName: string
  readonly database: string
  /** `active`, `idle`, `idle in transaction` … */
  readonly state: string
  /** The current or latest query. */
  readonly query: string
}

/** Queries the server at `adminUrl` about its connections; each query uses a separate connection. */
export const backendsAt = (adminUrl: string) => ({
  backends: (): Promise<ReadonlyArray<Backend>> =>
    withClient(adminUrl, async (client) => {
      const { rows } = await client.query<Backend>(
        `SELECT pid, application_name AS "applicationName", datname AS database, state, query
           FROM pg_stat_activity
          WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
          ORDER BY backend_start, pid`,
      )
      return rows
    }),
  cancel: (pid: number): Promise<boolean> => ask(adminUrl, "SELECT pg_cancel_backend($1) AS done", pid),
  terminate: (pid: number): Promise<boolean> => ask(adminUrl, "SELECT pg_terminate_backend($1) AS done", pid),
})

const ask = (url: string, question: string, pid: number): Promise<boolean> =>
  withClient(url, async (client) => (await client.query<{ done: boolean }>(question, [pid])).rows[0]?.done === true)
