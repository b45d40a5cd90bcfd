import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { MigrationStatus } from "@kiln/core/ports"
import { applyMigrations, migrationStatus } from "./migrate.ts"
import { connect, type PostgresOptions } from "./openDatabase.ts"

/** Migrations apart from opening the store, which brings its schema up to date by itself unless it is told not to. */
export const postgresMigrations = {
  /** How far the schema is. Changes nothing; where there is no schema yet, everything is pending. */
  status: (options: PostgresOptions): Effect.Effect<MigrationStatus, StoreUnavailable> =>
    Effect.gen(function* () {
      const { connections, database } = yield* connect(options)
      return yield* database.read("migrationStatus", (session) => migrationStatus(session, connections.schema))
    }).pipe(Effect.scoped),
  /** Applies what is pending, all of it or nothing. Answers with the names, in order. */
  apply: (options: PostgresOptions): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
    Effect.gen(function* () {
      const { connections, database } = yield* connect(options)
      return yield* applyMigrations(database, connections.schema)
    }).pipe(Effect.scoped),
} as const
