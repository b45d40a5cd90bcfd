import { withClient } from "./withClient.ts"

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
