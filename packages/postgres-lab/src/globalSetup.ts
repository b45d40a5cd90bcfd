import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { createServer, type Socket } from "node:net"
import type { TestProject } from "vitest/node"
import type { Cluster } from "./Cluster.ts"
import { removeStaleDirectories } from "./labDirectory.ts"
import { startCluster } from "./startCluster.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** A running server, or the port of a service that starts one on the first request of a test file. */
    readonly kilnPostgres: { readonly url: string } | { readonly port: number; readonly token: string }
  }
}

// Nothing here outlives the test run, so nothing must reach a disk or stay in memory for long.
const settings = { full_page_writes: false, synchronous_commit: false, max_wal_size: "256MB", max_connections: 200 }

/**
 * Provides one Postgres for all test files (a global setup of Vitest): the one of KILN_TEST_DATABASE_URL or DATABASE_URL if
 * one of them is a postgres:// URL, otherwise an embedded one. A run that needs no server only opens a listening socket.
 */
export const setup = async (project: Pick<TestProject, "provide">): Promise<() => Promise<void>> => {
  // oxlint-disable-next-line node/no-process-env -- selects the server for a test run
  const { DATABASE_URL, KILN_TEST_DATABASE_URL } = process.env
  const url = [KILN_TEST_DATABASE_URL, DATABASE_URL].find(isPostgres)
  if (url !== undefined) {
    project.provide("kilnPostgres", { url })
    return async () => {}
  }
  removeStaleDirectories()
  let cluster: Promise<Cluster> | undefined
  const token = randomBytes(12).toString("hex")
  const server = createServer((socket) => {
    answer(socket, token, () => (cluster ??= startCluster({ inMemory: true, settings })))
  })
  server.listen(0, "127.0.0.1").unref()
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error(`no TCP address: ${address}`)
  project.provide("kilnPostgres", { port: address.port, token })
  return async () => {
    server.close()
    await (await cluster?.catch(() => undefined))?.dispose()
  }
}

const isPostgres = (url: string | undefined): boolean => url !== undefined && /^postgres(ql)?:\/\//.test(url)

/** Responds to a test file that sends the token with `{ url }` or `{ problem }`; sends nothing to other local clients. */
const answer = (socket: Socket, token: string, start: () => Promise<Cluster>): void => {
  socket.on("error", () => {})
  socket.once("data", (data) => {
    if (data.toString() !== token) return void socket.destroy()
    start().then(
      ({ adminUrl }) => socket.end(JSON.stringify({ url: adminUrl })),
      (error: unknown) => socket.end(JSON.stringify({ problem: String(error) })),
    )
  })
}
