import { postgresStore } from "@kiln/adapter-postgres"
import { builtInKinds, createEngine } from "@kiln/core"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs } from "@kiln/testing"
import { type Generated, Kysely, PostgresDialect } from "kysely"
import { Pool } from "pg"
import { charge, type Shop, speechOf } from "./Shop.ts"

interface Tables {
  readonly orders: { readonly id: Generated<number>; readonly text: string }
}

/** Uses a Kysely transaction. */
export const openWithKysely = async (url: string): Promise<Shop> => {
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: new Pool({ connectionString: url }) }) })
  const orders = db.schema.createTable("orders").ifNotExists()
  await orders
    .addColumn("id", "serial", (column) => column.primaryKey())
    .addColumn("text", "text", (column) => column.notNull())
    .execute()
  const providers = { sandbox: sandboxProviders() }
  const engine = await createEngine({
    store: postgresStore({ url }),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers,
  })
  return {
    engine,
    order: (text) =>
      db.transaction().execute(async (transaction) => {
        await transaction.insertInto("orders").values({ text }).execute()
        const { id } = await engine.submit("speech_synthesis", speechOf(text), { transaction })
        charge(text)
        return { jobId: id, committedAt: performance.now() }
      }),
    countOrders: async () => (await db.selectFrom("orders").select("id").execute()).length,
    [Symbol.asyncDispose]: async () => {
      await engine.stop()
      await db.destroy()
    },
  }
}
