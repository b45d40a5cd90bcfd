import { postgresStore } from "@kiln/adapter-postgres"
import { builtInKinds, createEngine } from "@kiln/core"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs } from "@kiln/testing"
import { Pool } from "pg"
import { charge, type Shop, speechOf } from "./Shop.ts"

/** Uses a `pg` client. */
export const openWithPg = async (url: string): Promise<Shop> => {
  const pool = new Pool({ connectionString: url })
  await pool.query("CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, text text NOT NULL)")
  const providers = { sandbox: sandboxProviders() }
  const engine = await createEngine({
    store: postgresStore({ url }),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers,
  })
  return {
    engine,
    order: async (text) => {
      const client = await pool.connect()
      try {
        await client.query("BEGIN")
        await client.query("INSERT INTO orders (text) VALUES ($1)", [text])
        const { id } = await engine.submit("speech_synthesis", speechOf(text), { transaction: client })
        charge(text)
        const committedAt = performance.now()
        await client.query("COMMIT")
        return { jobId: id, committedAt }
      } catch (error) {
        await client.query("ROLLBACK")
        throw error
      } finally {
        client.release()
      }
    },
    countOrders: async () => (await pool.query("SELECT id FROM orders")).rows.length,
    [Symbol.asyncDispose]: async () => {
      await engine.stop()
      await pool.end()
    },
  }
}
