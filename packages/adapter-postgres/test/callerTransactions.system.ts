import { Effect, type Scope } from "effect"
import { Kysely, PostgresDialect } from "kysely"
import { callersPool } from "@kiln/postgres-lab"
import { callerTransactionsConformance, type CallerPlace } from "@kiln/conformance"
import { type KyselyTransaction, type PgClient, PostgresStores } from "../src/index.ts"
import { emptyDatabase } from "./support/databases.ts"

/** A lane that is found empty is set aside at once, so that a claim says when it has something. */
const options = (url: string) => ({ url, poolSize: 4, noteLanesEveryMs: 0 })

/** A pool of the embedding program's, with the driver's own settings. */
const pools = Effect.flatMap(emptyDatabase, (url) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const pool = callersPool(url)
      return { url, pool }
    }),
    ({ pool }) => Effect.promise(() => pool.end()),
  ),
)

const pgPlace: Effect.Effect<CallerPlace, never, Scope.Scope> = Effect.map(pools, ({ pool, url }) => ({
  layer: PostgresStores.layer(options(url)),
  begin: async () => {
    const client = await pool.connect()
    await client.query("BEGIN")
    const end = (how: string) => async () => {
      await client.query(how)
      client.release()
    }
    return { transaction: client satisfies PgClient, commit: end("COMMIT"), rollback: end("ROLLBACK") }
  },
}))

const kyselyPlace: Effect.Effect<CallerPlace, never, Scope.Scope> = Effect.map(pools, ({ pool, url }) => {
  const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) })
  return {
    layer: PostgresStores.layer(options(url)),
    begin: async () => {
      const transaction = await db.startTransaction().execute()
      return {
        transaction: transaction satisfies KyselyTransaction,
        commit: () => transaction.commit().execute(),
        rollback: () => transaction.rollback().execute(),
      }
    },
  }
})

callerTransactionsConformance({ name: "Postgres, by a client of pg,", concurrent: true, place: pgPlace })
callerTransactionsConformance({ name: "Postgres, by a transaction of Kysely's,", concurrent: true, place: kyselyPlace })
