import { Effect, type Layer, type Scope } from "effect"
import { afterAll } from "vitest"
import { freshDatabase } from "@kiln/postgres-lab"
import type { Stores } from "@kiln/conformance"
import type { AuditLog, MinuteHistory, OperatorTokens, RateLimitStore } from "@kiln/core/ports"
import { postgresMigrations, type PostgresOptions, PostgresStores } from "../../src/index.ts"
import { ReusedDatabases } from "./ReusedDatabases.ts"
import { onEffectClock, takeOverClock } from "./virtualTime.ts"

/** A database of its own, gone with the scope; a copy of `template`, where one is named. */
export const temporaryDatabase = (template?: string): Effect.Effect<string, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => freshDatabase(template === undefined ? {} : { template })),
      (database) => Effect.promise(() => database.dispose()),
    ),
    (database) => database.url,
  )

/** A migrated database whose clock is a test's, to be copied. */
export const makeTemplate = async (): Promise<string> => {
  const template = await freshDatabase()
  await Effect.runPromise(postgresMigrations.apply({ url: template.url }))
  await takeOverClock(template.url)
  return template.name
}
const databases = new ReusedDatabases(makeTemplate)

/** An empty store whose time is the Effect clock's. Called where tests are registered: the databases go with the file. */
export const virtualTimePlace = (
  options: Partial<PostgresOptions> = {},
): Effect.Effect<
  Layer.Layer<Stores | RateLimitStore | AuditLog | OperatorTokens | MinuteHistory, unknown>,
  unknown,
  Scope.Scope
> => {
  afterAll(databases.dispose)
  return Effect.map(databases.next, ({ url, client }) =>
    onEffectClock(
      PostgresStores.layer({ url, poolSize: 3, notifications: false, noteLanesEveryMs: 0, ...options }),
      async (now) => void (await client.query(`UPDATE "kiln".test_clock SET now = $1`, [now])),
    ),
  )
}
