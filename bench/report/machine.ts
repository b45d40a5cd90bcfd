import { readFileSync } from "node:fs"
import { arch, cpus, platform, release, totalmem } from "node:os"
import { join } from "node:path"
import Database from "better-sqlite3"
import { Client } from "pg"

interface Manifest {
  readonly version: string
  readonly devDependencies: Readonly<Record<string, string>>
}

const versions = (): string => {
  const manifest = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8")) as Manifest
  return Object.entries(manifest.devDependencies)
    .filter(([name]) => name !== "pg" && name !== "postgres")
    .map(([name, version]) => `${name} ${version}`)
    .join(", ")
}

const sqliteVersion = (): string => {
  const database = new Database(":memory:")
  const row = database.prepare("SELECT sqlite_version() AS version").get([]) as { readonly version: string }
  database.close()
  return row.version
}

const postgresVersion = async (url: string): Promise<string> => {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ server_version: string }>("SHOW server_version")
  await client.end()
  return rows[0]?.server_version ?? "unknown"
}

/** Describes the machine and the versions as items of a Markdown list. */
export const describeMachine = async (postgresUrl: string): Promise<string> => {
  const cores = cpus()
  const gigabytes = Math.round(totalmem() / 1024 ** 3)
  return [
    `- ${cores.length} cores (${cores[0]?.model.trim() ?? "unknown"}), ${gigabytes} GiB, ${platform()} ${release()}, ${arch()}`,
    `- Node ${process.versions.node}, PostgreSQL ${await postgresVersion(postgresUrl)}, SQLite ${sqliteVersion()}`,
    `- ${versions()}`,
  ].join("\n")
}
