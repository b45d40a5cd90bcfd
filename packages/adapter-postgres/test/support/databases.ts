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

/** A connection of somebody else's, which ends with the scope. */
export const connected = (config: string | pg.ClientConfig): Effect.Effect<pg.Client, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new pg.Client(config)
      client.on("error", () => undefined)
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end()),
  )

/** The same with an open transaction of the embedding program's; what is open at the end is rolled back. */
export const begun = (url: string): Effect.Effect<pg.Client, never, Scope.Scope> =>
  Effect.tap(connected(url), (client) => Effect.promise(() => client.query("BEGIN")))

/** Runs SQL behind kiln's back and returns its rows. */
export const runSql = (url: string, sql: string): Effect.Effect<ReadonlyArray<unknown>> =>
  Effect.scoped(
    Effect.flatMap(connected(url), (client) =>
      Effect.promise(async () => (await client.query(sql)).rows as ReadonlyArray<unknown>),
    ),
  )
