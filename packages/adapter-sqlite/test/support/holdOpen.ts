// Keeps the store open without using it, like an idle server, until it is killed: `holdOpen.ts PATH`.
import { Effect } from "effect"
import { openDatabase } from "../../src/openDatabase.ts"

// A waiting effect does not keep a process alive.
setInterval(() => undefined, 60_000)
const [path = ""] = process.argv.slice(2)
await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      yield* openDatabase({ path })
      console.log("open")
      yield* Effect.never
    }),
  ),
)
