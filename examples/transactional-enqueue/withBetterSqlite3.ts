import { join } from "node:path"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { builtInKinds, createEngine } from "@kiln/core"
import { sandboxProviders } from "@kiln/provider-sandbox"
import Database from "better-sqlite3"
import { charge, type Ordered, type Shop, speechOf } from "./Shop.ts"

/** Uses a better-sqlite3 handle, synchronously: orders and jobs are in one file. */
export const openWithBetterSqlite3 = async (directory: string): Promise<Shop> => {
  const path = join(directory, "shop.db")
  const store = sqliteStore({ path })
  const blobs = fileBlobs({ directory: join(directory, "blobs") })
  const engine = await createEngine({ store, blobs, kinds: builtInKinds(), providers: { sandbox: sandboxProviders() } })
  const db = new Database(path)
  db.exec("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
  const insert = db.prepare("INSERT INTO orders (text) VALUES (?)")

  /** Synchronous, so nothing else in this process runs in between. */
  const order = (text: string): Ordered => {
    db.exec("BEGIN IMMEDIATE")
    try {
      insert.run([text])
      const { id } = engine.submitSync("speech_synthesis", speechOf(text), { transaction: db })
      charge(text)
      const committedAt = performance.now()
      db.exec("COMMIT")
      return { jobId: id, committedAt }
    } catch (error) {
      db.exec("ROLLBACK")
      throw error
    }
  }
  return {
    engine,
    order: async (text) => order(text),
    countOrders: async () => db.prepare("SELECT id FROM orders").all([]).length,
    [Symbol.asyncDispose]: async () => {
      await engine.stop()
      db.close()
    },
  }
}
