import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Cluster, startCluster } from "@kiln/postgres-lab"
import { Client } from "pg"
import type { Place } from "./workloads/Workload.ts"

/** The server's settings that differ from its defaults; commits wait for the disk. */
const postgresSettings = {
  synchronous_commit: "on",
  shared_buffers: "512MB",
  max_wal_size: "4GB",
  max_connections: 300,
} as const

const query = async (url: string, ...statements: ReadonlyArray<string>): Promise<void> => {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

const sqlitePlace = (): Place => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-bench-"))
  return {
    place: join(directory, "jobs.db"),
    settle: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => {
      rmSync(directory, { recursive: true, force: true })
      return Promise.resolve()
    },
  }
}

/** Makes empty databases: SQLite files on the disk of temporary files, Postgres databases in one server of the bench's own. */
export class Places implements AsyncDisposable {
  #cluster: Promise<Cluster> | undefined
  #count = 0

  readonly place = async (store: "sqlite" | "postgres"): Promise<Place> => {
    if (store === "sqlite") return sqlitePlace()
    this.#cluster ??= startCluster({ fsync: true, settings: postgresSettings })
    const { adminUrl, url } = await this.#cluster
    this.#count += 1
    const name = `bench_${this.#count}`
    await query(url, `CREATE DATABASE ${name}`)
    const place = new URL(url)
    place.pathname = `/${name}`
    const admin = new URL(adminUrl)
    admin.pathname = `/${name}`
    return {
      place: place.href,
      settle: () => query(admin.href, "VACUUM ANALYZE", "CHECKPOINT"),
      [Symbol.asyncDispose]: () => query(adminUrl, `DROP DATABASE ${name} WITH (FORCE)`, "CHECKPOINT"),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#cluster)?.dispose()
  }
}
