import * as Effect from "effect/Effect"
import { causeMessage, failed } from "../CommandFailed.ts"

/** Loaded on demand, so that SQLite users do not wait for the Postgres driver. */
export const loadPostgres = Effect.tryPromise({
  try: () => import("@kiln/adapter-postgres"),
  catch: (cause) => failed(`cannot load the Postgres adapter: ${causeMessage(cause)}`),
})
