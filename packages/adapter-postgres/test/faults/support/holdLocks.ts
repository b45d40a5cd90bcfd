// A process of its own: locks a job by the means of the stores, says so, and never ends its transaction.
import { Effect } from "effect"
import { connect } from "../../../src/connection/openDatabase.ts"

const [url = "", jobId = ""] = process.argv.slice(2)
setInterval(() => undefined, 60_000)
await Effect.runPromise(
  Effect.scoped(
    Effect.flatMap(connect({ url, statementTimeoutMs: 1_000 }), ({ database }) =>
      database.write("hold", async (tx) => {
        await tx.execute('SELECT FROM "kiln".queue WHERE id = $1 FOR UPDATE', [jobId])
        process.stdout.write("held")
        await new Promise(() => undefined)
      }),
    ),
  ),
)
