// Begins a migration that does not end: `migrateForEver.ts PATH`. Prints `migrating` from inside of it.
import { writeSync } from "node:fs"
import { Effect } from "effect"
import { migrate } from "../../src/migrate.ts"
import { openDatabase } from "../../src/openDatabase.ts"

const [path = ""] = process.argv.slice(2)

/** Its table is made, then it hangs where the second half would begin. */
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
  yield* migrate(database, [endless])
})

await Effect.runPromise(Effect.scoped(main))
