import { dirname } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { inspectSqlite, sqliteMigrations } from "@kiln/adapter-sqlite"
import type { MigrationStatus, StoreInspection } from "@kiln/core/ports"
import { SchemaMismatch, StoreUnavailable } from "@kiln/core/domain"
import type { CommandFailed } from "../CommandFailed.ts"
import { prepareDirectory } from "../openStores.ts"
import type { DatabasePlace } from "./DatabasePlace.ts"
import { explainDatabase } from "./databaseProblem.ts"
import { loadPostgres } from "./loadPostgres.ts"

/** Maintenance operations of a store. */
export interface StoreMaintenance {
  /** Returns the state of the schema; changes nothing. Fails for a schema that this version cannot migrate. */
  readonly migrationStatus: Effect.Effect<MigrationStatus, CommandFailed>
  /** Applies pending migrations and returns their names in order. Without pending ones, needs no permission to change schemas. */
  readonly migrate: Effect.Effect<ReadonlyArray<string>, CommandFailed>
  /** Opens the store for inspection; `undefined` if it does not exist yet. */
  readonly inspect: Effect.Effect<StoreInspection | undefined, CommandFailed, Scope.Scope>
}

/** Fails as opening the store would. */
const migratable = (status: Effect.Effect<MigrationStatus, StoreUnavailable>) =>
  Effect.filterOrFail(
    status,
    ({ changed }) => changed.length === 0,
    ({ changed }) => new StoreUnavailable({ operation: "migrate", cause: new SchemaMismatch({ changed }) }),
  )

type Apply = Effect.Effect<ReadonlyArray<string>, StoreUnavailable>

/** Returns the maintenance operations of a store. */
export const storeMaintenance = (place: DatabasePlace): Effect.Effect<StoreMaintenance, CommandFailed> => {
  const explained = explainDatabase(place)
  const whatIsPending = (status: Effect.Effect<MigrationStatus, StoreUnavailable>, apply: Apply) =>
    explained(Effect.flatMap(status, ({ pending }) => (pending.length === 0 ? Effect.succeed([]) : apply)))
  if (place._tag === "Sqlite") {
    const options = { path: place.path, allowCopies: place.allowCopies }
    const status = migratable(sqliteMigrations.status(options))
    return Effect.succeed({
      migrationStatus: explained(status),
      migrate: Effect.andThen(
        prepareDirectory(dirname(place.path)),
        whatIsPending(status, sqliteMigrations.apply(options)),
      ),
      inspect: explained(inspectSqlite(options)),
    })
  }
  const { _tag, ...options } = { ...place, poolSize: 2, notifications: false }
  return Effect.map(loadPostgres, ({ inspectPostgres, postgresMigrations }) => ({
    migrationStatus: explained(migratable(postgresMigrations.status(options))),
    migrate: whatIsPending(migratable(postgresMigrations.status(options)), postgresMigrations.apply(options)),
    inspect: explained(inspectPostgres(options)),
  }))
}
