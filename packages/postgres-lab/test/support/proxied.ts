import { freshDatabase, tcpProxy } from "@kiln/postgres-lab"
import type pg from "pg"
import { ask, Clients } from "./clients.ts"

/** Creates a database with an empty table `jobs`, and a proxy in front of it. */
export const proxied = async () => {
  const database = await freshDatabase()
  await ask(database.url, "CREATE TABLE jobs (id int PRIMARY KEY)")
  const proxy = await tcpProxy(database.url)
  const clients = new Clients()
  return {
    proxy,
    connect: (config: pg.ClientConfig = {}) => clients.connect(proxy.url, "proxied", config),
    /** Returns the number of jobs, bypassing the proxy. */
    jobs: () => ask(database.url, "SELECT count(*)::int FROM jobs"),
    [Symbol.asyncDispose]: async () => {
      await proxy.close()
      await clients[Symbol.asyncDispose]()
      await database.dispose()
    },
  }
}
