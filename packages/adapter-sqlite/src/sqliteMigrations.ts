import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { MigrationStatus } from "@kiln/core/ports"
import { migrationStatus } from "./migrate.ts"
import { migrations } from "./migrations/index.ts"
import { openDatabase, type SqliteOptions } from "./openDatabase.ts"
import { openReadOnly } from "./openReadOnly.ts"

const status = (options: SqliteOptions): Effect.Effect<MigrationStatus, StoreUnavailable> =>
  Effect.gen(function* () {
    const database = yield* openReadOnly(options.path)
    if (database === undefined) return { applied: [], pending: migrations, unknown: [] }
    return yield* database.read("migrationStatus", () => migrationStatus(database.connection))
  }).pipe(Effect.scoped)

/** Migrations apart from opening the store, which brings its schema up to date by itself. */
export const sqliteMigrations = {
  /** How far the schema is. Changes nothing; where there is no database yet, everything is pending. */
  status,
  /** Applies what is pending, all of it or nothing. Answers with the names, in order, of what was pending and no longer is. */
  apply: (options: SqliteOptions): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
    Effect.gen(function* () {
      const before = yield* status(options)
      yield* Effect.scoped(openDatabase(options))
      const left = new Set((yield* status(options)).pending.map(({ name }) => name))
      return before.pending.map(({ name }) => name).filter((name) => !left.has(name))
    }),
} as const
