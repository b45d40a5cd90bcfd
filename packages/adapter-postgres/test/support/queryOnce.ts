import pg from "pg"

/** Runs queries on a connection of their own, past every layer of the program, all of them in one snapshot. */
export const queryOnce = async <Rows extends ReadonlyArray<ReadonlyArray<object>>>(
  url: string,
  ...queries: { readonly [Index in keyof Rows]: string }
): Promise<Rows> => {
  const client = new pg.Client({ connectionString: url })
  client.on("error", () => undefined)
  await client.connect()
  try {
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    const results: Array<ReadonlyArray<object>> = []
    for (const query of queries) results.push((await client.query<object>(query)).rows)
    // As many as there were queries, in their order; what the rows are is the caller's to say.
    return results as ReadonlyArray<ReadonlyArray<object>> as Rows
  } finally {
    await client.end()
  }
}
