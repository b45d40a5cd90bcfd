// Opens the store, prints its board, and exits: `openStore.ts PATH`.
import { Effect } from "effect"
import { Switchboard } from "@kiln/core/ports"
import { SqliteStores } from "../../src/index.ts"

const [path = ""] = process.argv.slice(2)
const board = await Effect.runPromise(
  Effect.provide(
    Effect.flatMap(Switchboard, (switchboard) => switchboard.readBoard),
    SqliteStores.layer({ path }),
  ),
)
console.log(JSON.stringify(board))
