import { join } from "node:path"
import { PostgresStores } from "@kiln/adapter-postgres"
import { SqliteStores } from "@kiln/adapter-sqlite"
import { freshDatabase, withClient } from "@kiln/postgres-lab"
import { temporaryDirectory } from "@kiln/service-lab"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { changeDatabase } from "./changeDatabase.ts"
import type { Stores } from "../../src/openStores.ts"

/** An installation with records but without a process. */
export interface Installation extends AsyncDisposable {
  readonly env: Readonly<Record<string, string>>
  readonly directory: string
  /** Runs on its stores, at the present time. */
  readonly use: <A>(work: Effect.Effect<A, unknown, Stores>) => Promise<A>
  /** Runs on its stores in 1970: what finishes there is past every retention. */
  readonly useLongAgo: <A>(work: Effect.Effect<A, unknown, Stores>) => Promise<A>
  /** Makes every later insertion into the audit log fail. */
  readonly refuseAuditEntries: () => Promise<void>
}

type Open = () => Promise<Installation>

const sqlite: Open = async () => {
  const data = temporaryDirectory()
  const layer = SqliteStores.layer({ path: join(data.path, "kiln.db") })
  const on = <A>(work: Effect.Effect<A, unknown, Stores>) => Effect.scoped(Effect.provide(work, layer))
  const useLongAgo: Installation["useLongAgo"] = (work) =>
    Effect.runPromise(Effect.provide(on(work), TestClock.layer()))
  // Store time never goes back.
  await useLongAgo(Effect.void)
  return {
    env: { KILN_DATA_DIR: data.path },
    directory: data.path,
    use: (work) => Effect.runPromise(on(work)),
    useLongAgo,
    refuseAuditEntries: async () =>
      changeDatabase(
        data.path,
        "CREATE TRIGGER refuse_entries BEFORE INSERT ON kiln_audit BEGIN SELECT RAISE(ABORT, 'full'); END",
      ),
    [Symbol.asyncDispose]: async () => void data[Symbol.dispose](),
  }
}

const postgres: Open = async () => {
  const data = temporaryDirectory()
  const database = await freshDatabase()
  const layer = PostgresStores.layer({ url: database.url, notifications: false })
  const use = <A>(work: Effect.Effect<A, unknown, Stores>): Promise<A> =>
    Effect.runPromise(Effect.scoped(Effect.provide(work, layer)))
  await use(Effect.void)
  return {
    env: { KILN_DATA_DIR: data.path, DATABASE_URL: database.url },
    directory: data.path,
    use,
    // Store time is the server's: nothing is long ago there.
    useLongAgo: use,
    refuseAuditEntries: () =>
      withClient(database.url, async (client) => {
        await client.query("ALTER TABLE kiln.audit ADD CHECK (number < 0) NOT VALID")
      }),
    [Symbol.asyncDispose]: async () => {
      data[Symbol.dispose]()
      await database[Symbol.asyncDispose]()
    },
  }
}

export const installations: ReadonlyArray<readonly [name: string, open: Open]> = [
  ["SQLite", sqlite],
  ["Postgres", postgres],
]
export const sqliteInstallation = sqlite
