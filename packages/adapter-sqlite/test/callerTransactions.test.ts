import { Effect } from "effect"
import { callerTransactionsConformance } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { beginKysely, beginOn, callerConnection, callerKysely } from "./support/callers.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const oneWriter = { concurrent: false, reason: "SQLite has one writer" } as const

/** One connection, so the transactions of the checks that use it run one after the other. */
const onConnection = Effect.gen(function* () {
  const path = yield* temporaryFile
  const connection = yield* callerConnection(path)
  return { layer: SqliteStores.layer({ path }), begin: () => Promise.resolve(beginOn(connection)) }
})

const onKysely = Effect.gen(function* () {
  const path = yield* temporaryFile
  const kysely = yield* callerKysely(path)
  return { layer: SqliteStores.layer({ path }), begin: () => beginKysely(kysely) }
})

callerTransactionsConformance({ name: "SQLite, by a better-sqlite3 handle,", place: onConnection, ...oneWriter })
callerTransactionsConformance({
  name: "SQLite, by a better-sqlite3 handle, synchronously,",
  place: onConnection,
  through: "synchronous",
  ...oneWriter,
})
callerTransactionsConformance({ name: "SQLite, by a Kysely transaction,", place: onKysely, ...oneWriter })
