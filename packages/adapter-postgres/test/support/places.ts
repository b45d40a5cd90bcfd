import { Effect, type Layer, type Scope } from "effect"
import pg from "pg"
import { freshDatabase } from "@kiln/postgres-lab"
import type { Stores } from "@kiln/conformance"
import type { AuditLog, MinuteHistory, OperatorTokens, RateLimitStore } from "@kiln/core/ports"
import { postgresMigrations, type PostgresOptions, PostgresStores } from "../../src/index.ts"
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

const connected = (url: string): Effect.Effect<pg.Client, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: url, pipeline: true })
      client.on("error", () => undefined)
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end()),
  )

/** A migrated database whose clock is a test's, made once for all the copies that tests work on. */
export const makeTemplate = async (): Promise<string> => {
  const template = await freshDatabase()
  await Effect.runPromise(postgresMigrations.apply({ url: template.url }))
  await takeOverClock(template.url)
  return template.name
}
let template: Promise<string> | undefined

/** An empty store whose time is the Effect clock's. */
export const virtualTimePlace = (
  options: Partial<PostgresOptions> = {},
): Effect.Effect<
  Layer.Layer<Stores | RateLimitStore | AuditLog | OperatorTokens | MinuteHistory, unknown>,
  unknown,
  Scope.Scope
> =>
  Effect.gen(function* () {
    template ??= makeTemplate()
    const url = yield* temporaryDatabase(yield* Effect.promise(() => template ?? makeTemplate()))
    const clock = yield* connected(url)
    return onEffectClock(
      PostgresStores.layer({ url, poolSize: 3, notifications: false, noteLanesEveryMs: 0, ...options }),
      async (now) => void (await clock.query(`UPDATE "kiln".test_clock SET now = $1`, [now])),
    )
  })
