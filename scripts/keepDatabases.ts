// Keeps a SQLite and a Postgres database of the schema at this commit, with jobs in every state, for the tests that open the databases
// of earlier states: pnpm keep-databases NAME. Run it on the last commit before a change of the schema, and add the name to `keptStates`
// in both tests of kept databases.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { gzipSync } from "node:zlib"
import * as Effect from "effect/Effect"
import { postgresStore, PostgresStores } from "@kiln/adapter-postgres"
import { sqliteStore, SqliteStores } from "@kiln/adapter-sqlite"
import { arrangeEveryState } from "@kiln/conformance"
import { builtInKinds, createEngine } from "@kiln/core"
import type { StoreAdapter } from "@kiln/core/ports"
import { startCluster } from "@kiln/postgres-lab"
import { sandboxProviders } from "@kiln/provider-sandbox"
import { memoryBlobs } from "@kiln/testing"
import { dumpPostgres } from "./kept/dumpPostgres.ts"
import { dumpSqlite } from "./kept/dumpSqlite.ts"

const input = { input: "kept" }

/** What the verbs of the stores do not arrange: a schedule, and jobs with options of their submission. */
const arrangeEngine = async (store: StoreAdapter) => {
  const engine = await createEngine({
    store,
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders() },
    autoStart: false,
    log: false,
  })
  await engine.schedules.set("hourly", { kind: "speech_synthesis", request: input, everyMs: 3_600_000 })
  await engine.submit("speech_synthesis", input, { idempotencyKey: "kept", tags: ["kept"], metadata: { n: 1 } })
  await engine.submit("speech_synthesis", input, { unique: { by: ["input"], while: "unfinished" } })
  await engine.stop()
}

const keep = (adapter: "sqlite" | "postgres", name: string, dump: string) => {
  const file = join(import.meta.dirname, `../packages/adapter-${adapter}/test/kept/${name}.sql.gz`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, gzipSync(dump, { level: 9 }))
}

const name = process.argv[2]
if (name === undefined || !/^[\w-]+$/.test(name)) throw new Error("usage: scripts/keepDatabases.ts NAME")

const directory = mkdtempSync(join(tmpdir(), "kiln-kept-"))
try {
  const path = join(directory, "kiln.db")
  await Effect.runPromise(Effect.provide(arrangeEveryState, SqliteStores.layer({ path })))
  await arrangeEngine(sqliteStore({ path }))
  keep("sqlite", name, dumpSqlite(path))
} finally {
  rmSync(directory, { recursive: true })
}

await using cluster = await startCluster({ inMemory: true })
const url = cluster.adminUrl
await Effect.runPromise(Effect.provide(arrangeEveryState, PostgresStores.layer({ url, poolSize: 2 })))
await arrangeEngine(postgresStore({ url }))
keep("postgres", name, await dumpPostgres(url))
