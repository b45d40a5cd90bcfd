import { randomBytes } from "node:crypto"
import { postgresServer } from "./postgresServer.ts"
import { withClient } from "./withClient.ts"

export interface FreshDatabase extends AsyncDisposable {
  readonly name: string
  readonly url: string
  /** Drops it, whoever is still connected. */
  readonly dispose: () => Promise<void>
}

export interface FreshDatabaseOptions {
  /** URL of a server and a role on it that may create databases; by default the server that all test files share. */
  readonly server?: string
  /** Name of a database to start from, to which nobody is connected; by default an empty one. */
  readonly template?: string
}

/** A database of one's own on a running server; created in about 40 ms, dropped in about 20. */
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
