import { Effect } from "effect"
import { causeMessage, failed } from "../CommandFailed.ts"

/** Who works on SQLite does not wait for the driver of another database. */
export const loadPostgres = Effect.tryPromise({
  try: () => import("@kiln/adapter-postgres"),
  catch: (cause) => failed(`cannot load the Postgres adapter: ${causeMessage(cause)}`),
})
