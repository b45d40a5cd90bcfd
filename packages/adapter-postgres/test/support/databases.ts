import { Effect, type Scope } from "effect"
import pg from "pg"
import { freshDatabase } from "@kiln/postgres-lab"

/** The URL of an empty database that goes with the scope. */
export const emptyDatabase: Effect.Effect<string, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.promise(() => freshDatabase()),
    (database) => Effect.promise(() => database.dispose()),
  ),
  ({ url }) => url,
)

/** Runs SQL behind kiln's back, and answers with its rows. */
export const runSql = (url: string, sql: string): Effect.Effect<ReadonlyArray<unknown>> =>
  Effect.promise(async () => {
    const client = new pg.Client({ connectionString: url })
    client.on("error", () => undefined)
    await client.connect()
    try {
      return (await client.query(sql)).rows as ReadonlyArray<unknown>
    } finally {
      await client.end()
    }
  })
