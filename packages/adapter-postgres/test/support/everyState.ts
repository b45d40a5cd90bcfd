import { Effect, type Scope } from "effect"
import { freshDatabase } from "@kiln/postgres-lab"
import { arrangeEveryState } from "@kiln/conformance"
import { PostgresStores } from "../../src/index.ts"
import { temporaryDatabase } from "./places.ts"

const makeTemplate = async (): Promise<string> => {
  const { name, url } = await freshDatabase()
  await Effect.runPromise(
    Effect.provide(arrangeEveryState, PostgresStores.layer({ url, poolSize: 2, notifications: false })),
  )
  return name
}
let template: Promise<string> | undefined

/** The URL of a database with one job in every state, and the database's own clock: see `arrangeEveryState`. */
export const everyState: Effect.Effect<string, never, Scope.Scope> = Effect.flatMap(
  Effect.promise(() => (template ??= makeTemplate())),
  temporaryDatabase,
)
