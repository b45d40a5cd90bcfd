import { Effect } from "effect"
import pg from "pg"
import { freshDatabase } from "@kiln/postgres-lab"
import { postgresMigrations, PostgresStores } from "../../src/index.ts"
import { claimingStore } from "./claimCost.ts"
import { type Filling, fillStore } from "./fillStore.ts"

/** A store in a database of its own, filled, that claims and completes; on the shared server unless another one is named. */
export const filledStore = async (filling: Filling, server?: string) => {
  const database = await freshDatabase(server === undefined ? {} : { server })
  await Effect.runPromise(postgresMigrations.apply({ url: database.url }))
  await fillStore(database.url, filling)
  const store = claimingStore(PostgresStores.layer({ url: database.url, poolSize: 3, notifications: false }))
  return {
    ...store,
    url: database.url,
    [Symbol.asyncDispose]: async () => {
      await store.dispose()
      await database.dispose()
    },
  }
}

/** A transaction that reads and does not end: nothing that goes while it is open can be vacuumed. */
export const oldSnapshot = async (url: string) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ")
  await client.query(`SELECT count(*) FROM "kiln".lanes`)
  return { [Symbol.asyncDispose]: () => client.end() }
}
