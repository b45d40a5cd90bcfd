import { Effect } from "effect"
import { callerTransactionsConformance } from "@kiln/conformance"
import { SqliteStores } from "../src/index.ts"
import { beginKysely, beginOn, callerConnection, callerKysely } from "./support/callers.ts"
import { makeEmptyOldDatabase } from "./support/oldDatabase.ts"
import { temporaryFile } from "./support/temporaryDirectory.ts"

const oneWriter = { concurrent: false, reason: "SQLite has one writer" } as const

/** One connection, so that the checks that ask for it have its transactions one after the other. */
const onConnectionTo = (file: typeof temporaryFile) =>
  Effect.gen(function* () {
    const path = yield* file
    const connection = yield* callerConnection(path)
    return { layer: SqliteStores.layer({ path }), begin: () => Promise.resolve(beginOn(connection)) }
  })

const onKyselyTo = (file: typeof temporaryFile) =>
  Effect.gen(function* () {
    const path = yield* file
    const kysely = yield* callerKysely(path)
    return { layer: SqliteStores.layer({ path }), begin: () => beginKysely(kysely) }
  })

/** Its tables have other names. */
const ofTheFirstVersion = Effect.map(temporaryFile, (path) => {
  makeEmptyOldDatabase(path, 1)
  return path
})

for (const [store, file] of [
  ["SQLite", temporaryFile],
  ["SQLite, a file of the first version", ofTheFirstVersion],
] as const) {
  const onConnection = onConnectionTo(file)
  callerTransactionsConformance({ name: `${store}, by a better-sqlite3 handle,`, place: onConnection, ...oneWriter })
  callerTransactionsConformance({
    name: `${store}, by a better-sqlite3 handle without waiting,`,
    place: onConnection,
    through: "synchronous",
    ...oneWriter,
  })
  callerTransactionsConformance({ name: `${store}, by a Kysely transaction,`, place: onKyselyTo(file), ...oneWriter })
}
