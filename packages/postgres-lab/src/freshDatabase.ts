import { randomBytes } from "node:crypto"
import { postgresServer } from "./postgresServer.ts"
import { withClient } from "./withClient.ts"

export interface FreshDatabase extends AsyncDisposable {
  readonly name: string
  readonly url: string
  /** Drops the database, even if clients are still connected. */
  readonly dispose: () => Promise<void>
}

export interface FreshDatabaseOptions {
  /** URL of a server and a role that may create databases. Default: the server shared by all test files. */
  readonly server?: string
  /** Name of a template database without connected clients. Default: an empty database. */
  readonly template?: string
}

/** Creates a separate database on a running server. Takes about 40 ms, and dropping it about 20 ms. */
export const freshDatabase = async (options: FreshDatabaseOptions = {}): Promise<FreshDatabase> => {
  const server = options.server ?? (await postgresServer())
  const name = `kiln_test_${randomBytes(8).toString("hex")}`
  const template = options.template === undefined ? "" : ` TEMPLATE "${options.template}"`
  await withClient(server, (client) => client.query(`CREATE DATABASE ${name}${template}`))
  const url = new URL(server)
  url.pathname = `/${name}`
  const dispose = async (): Promise<void> => {
    await withClient(server, (client) => client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))
  }
  return { name, url: url.href, dispose, [Symbol.asyncDispose]: dispose }
}
