import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import type { StoreAdapter } from "@kiln/core"
import { freshDatabase } from "@kiln/postgres-lab"
import { memoryStore } from "@kiln/testing"

/** A new, empty store, removed at the end of the block. */
export interface DisposableStore extends AsyncDisposable {
  readonly store: StoreAdapter
}

const sqlite = (): DisposableStore => {
  const directory = mkdtempSync(join(tmpdir(), "kiln-core-"))
  return {
    store: sqliteStore({ path: join(directory, "jobs.db") }),
    [Symbol.asyncDispose]: async () => rmSync(directory, { recursive: true, force: true }),
  }
}

const postgres = async (): Promise<DisposableStore> => {
  const database = await freshDatabase()
  return {
    store: postgresStore({ url: database.url }),
    [Symbol.asyncDispose]: () => database.dispose(),
  }
}

const memory = (): DisposableStore => ({ store: memoryStore(), [Symbol.asyncDispose]: async () => undefined })

/** What opens a store of each kind, for tests of embedded engines whose own code takes part in what is stored. */
export const everyStore: ReadonlyArray<readonly [string, () => DisposableStore | Promise<DisposableStore>]> = [
  ["memory", memory],
  ["SQLite", sqlite],
  ["Postgres", postgres],
]
