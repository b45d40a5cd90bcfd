import { Effect, type Layer, type Scope } from "effect"
import type pg from "pg"
import type { Stores } from "@kiln/conformance"
import { postgresMigrations, type PostgresOptions, PostgresStores } from "../../src/index.ts"
import { connected } from "./databases.ts"
import { onEffectClock, takeOverClock } from "./virtualTime.ts"

export interface PlaceOptions {
  /** A database that is all the test's, by a role that may do everything there. */
  readonly url: string
  /** How the stores are opened, if not like that. */
  readonly stores?: Partial<PostgresOptions>
  /** Runs once the schema is there, before the stores are opened. */
  readonly prepare?: ((client: pg.Client) => Promise<unknown>) | undefined
}

/** Stores in a custom database, on the time of Effect's clock. */
export const ownPlace = ({
  prepare,
  stores = {},
  url,
}: PlaceOptions): Effect.Effect<Layer.Layer<Stores, unknown>, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const { schema = "kiln" } = stores
    yield* postgresMigrations.apply({ url, schema })
    yield* Effect.promise(() => takeOverClock(url, schema))
    const client = yield* connected(url)
    yield* Effect.promise(async () => prepare?.(client))
    return onEffectClock(
      PostgresStores.layer({ poolSize: 3, notifications: false, noteLanesEveryMs: 0, url, ...stores }),
      async (now) => void (await client.query(`UPDATE "${schema}".test_clock SET now = $1`, [now])),
    )
  })
