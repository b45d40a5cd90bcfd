// Starts a migration that never ends: `hangInMigration.ts PATH`. Prints `migrating` from within the migration.
import { writeSync } from "node:fs"
import { Effect } from "effect"
import { migrate } from "../../src/migrations/migrate.ts"
import { migrations } from "../../src/migrations/index.ts"
import { openDatabase } from "../../src/openDatabase.ts"

const [path = ""] = process.argv.slice(2)

/** Creates a table and hangs before the second half. */
const endless = {
  name: "9999Endless",
  get sql(): string {
    return "CREATE TABLE half_way (id INTEGER PRIMARY KEY) STRICT; INSERT INTO half_way SELECT hang()"
  },
}

const main = Effect.gen(function* () {
  const database = yield* openDatabase({ path })
  Object(database.connection).function("hang", () => {
    writeSync(1, "migrating\n")
    for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000)
  })
  yield* migrate(database, [...migrations, endless])
})

await Effect.runPromise(Effect.scoped(main))
