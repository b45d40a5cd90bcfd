import pg from "pg"

/** Runs `use` on a separate connection, which is closed afterwards. */
export const withClient = async <A>(url: string, use: (client: pg.Client) => Promise<A>): Promise<A> => {
  const client = new pg.Client({ connectionString: url, application_name: "postgres-lab" })
  // A connection that breaks while idle emits an event that would otherwise end this process.
  client.on("error", () => {})
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

/** Opens a pool as a program has it. Ignores errors of its connections: dropping the database cuts those that are still closing. */
export const callersPool = (url: string, max = 5): pg.Pool => {
  const pool = new pg.Pool({ connectionString: url, max })
  pool.on("error", () => undefined)
  pool.on("connect", (client) => client.on("error", () => undefined))
  return pool
}

/** Reads the rows of these queries in one snapshot, on a separate connection that bypasses the program under test. */
export const readRows = <Rows extends ReadonlyArray<ReadonlyArray<object>>>(
  url: string,
  queries: { readonly [Index in keyof Rows]: string },
): Promise<Rows> =>
  withClient(url, async (client) => {
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    const results: Array<ReadonlyArray<object>> = []
    for (const query of queries) results.push((await client.query<object>(query)).rows)
    // One result per query, in order; the caller provides the row types.
    return results as ReadonlyArray<ReadonlyArray<object>> as Rows
  })
