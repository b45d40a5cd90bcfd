import { withClient } from "./withClient.ts"

/** The rows of these queries in one snapshot, on a connection of their own: past every layer of the program under test. */
export const readRows = <Rows extends ReadonlyArray<ReadonlyArray<object>>>(
  url: string,
  queries: { readonly [Index in keyof Rows]: string },
): Promise<Rows> =>
  withClient(url, async (client) => {
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    const results: Array<ReadonlyArray<object>> = []
    for (const query of queries) results.push((await client.query<object>(query)).rows)
    // As many as there were queries, in their order; what the rows are is the caller's to say.
    return results as ReadonlyArray<ReadonlyArray<object>> as Rows
  })
