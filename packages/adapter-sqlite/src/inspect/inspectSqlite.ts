import { Effect, Option, type Scope, Stream } from "effect"
import { StoreUnavailable } from "@kiln/core/domain"
import type { PublishedWorker } from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import { type MigrationStatus, migrationStatus } from "../migrate.ts"
import { migrations } from "../migrations/index.ts"
import type { SqliteOptions } from "../openDatabase.ts"
import { openReadOnly } from "../openReadOnly.ts"
import { findSecret } from "../sql/findSecret.ts"
import { firstBlobs, isNamed, listNamedBlobs, type NamedBlob } from "../sql/listNamedBlobs.ts"
import { listWorkers } from "../sql/listWorkers.ts"
import { type DuePurges, readDuePurges } from "../sql/readDuePurges.ts"
import { findDamage } from "./findDamage.ts"
import { type SchemaDrift, schemaDrift } from "./schemaDrift.ts"

/** Rows read at once: a listing never holds the store for long. */
const pageSize = 500

/**
 * What an operator asks of a store that no verb answers. Nothing here changes anything. Below `damage` everything needs
 * a schema of which at least one migration was applied.
 */
export interface StoreInspection {
  readonly migrations: Effect.Effect<MigrationStatus, StoreUnavailable>
  /** What of the schema is not as the migrations leave it. */
  readonly schemaDrift: Effect.Effect<ReadonlyArray<SchemaDrift>, StoreUnavailable>
  /** What is broken in the files of the database itself, in its own words. */
  readonly damage: Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  /** Every blob that a row promises to be there, a page at a time. */
  readonly namedBlobs: Stream.Stream<NamedBlob, StoreUnavailable>
  /** Whether the row that named a blob still does. */
  readonly isNamed: (blob: NamedBlob) => Effect.Effect<boolean, StoreUnavailable>
  readonly duePurges: Effect.Effect<DuePurges, StoreUnavailable>
  /** A secret by its name, if it was made already. */
  readonly findSecret: (name: string) => Effect.Effect<Uint8Array | undefined, StoreUnavailable>
  /** What the running workers publish. Needs all migrations. */
  readonly listWorkers: Effect.Effect<ReadonlyArray<PublishedWorker>, StoreUnavailable>
}

/** Opens a store for inspection, also while a server runs on it. `undefined` where there is no database yet. */
export const inspectSqlite = (
  options: SqliteOptions,
): Effect.Effect<StoreInspection | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.map(openReadOnly(options.path), (database) => (database === undefined ? undefined : inspectionOf(database)))

const inspectionOf = (db: Database): StoreInspection => ({
  migrations: db.read("inspect.migrations", () => migrationStatus(db.connection)),
  schemaDrift: db.read("inspect.schemaDrift", () =>
    schemaDrift(db.connection, migrations, migrationStatus(db.connection)),
  ),
  damage: Effect.try({
    try: () => findDamage(db.connection),
    catch: (cause) => new StoreUnavailable({ operation: "inspect.damage", cause }),
  }),
  namedBlobs: Stream.paginate(firstBlobs, (cursor) =>
    Effect.map(
      db.read("inspect.namedBlobs", (tx) => listNamedBlobs(tx, cursor, pageSize)),
      ({ blobs, next }) => [blobs, Option.fromUndefinedOr(next)] as const,
    ),
  ),
  isNamed: (blob) => db.read("inspect.isNamed", (tx) => isNamed(tx, blob)),
  duePurges: db.read("inspect.duePurges", readDuePurges),
  findSecret: (name) => db.read("inspect.findSecret", (tx) => findSecret(tx, name)),
  listWorkers: db.read("inspect.listWorkers", listWorkers),
})
