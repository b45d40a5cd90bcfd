import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { MigrationStatus } from "@kiln/core/ports"
import { migrationStatus } from "./migrate.ts"
import { migrations } from "./migrations/index.ts"
import { openDatabase, openReadOnly, type SqliteOptions } from "./openDatabase.ts"

const status = (options: SqliteOptions): Effect.Effect<MigrationStatus, StoreUnavailable> =>
  Effect.gen(function* () {
    const database = yield* openReadOnly(options)
    if (database === undefined) return { applied: [], pending: migrations, unknown: [], changed: [] }
    return yield* database.read("migrationStatus", () => migrationStatus(database.connection))
  }).pipe(Effect.scoped)

/** Migrations without opening the store, which brings its schema up to date by itself. */
export const sqliteMigrations = {
  /** Reads how far the schema is. Changes nothing; if there is no database yet, all migrations are pending. */
  status,
  /** Applies all pending migrations, or none if one fails. Returns the names of the applied ones, in order. */
  apply: (options: SqliteOptions): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
    Effect.gen(function* () {
      const before = yield* status(options)
      yield* Effect.scoped(openDatabase(options))
      const left = new Set((yield* status(options)).pending.map(({ name }) => name))
      return before.pending.map(({ name }) => name).filter((name) => !left.has(name))
    }),
} as const
