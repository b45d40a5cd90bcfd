import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { StoreUnavailable } from "@kiln/core/domain"
import type { StoreInspection } from "@kiln/core/ports"
import type { Database } from "../Database.ts"
import { migrationStatus } from "../migrate.ts"
import { migrations } from "../migrations/index.ts"
import type { SqliteOptions } from "../openDatabase.ts"
import { openReadOnly } from "../openReadOnly.ts"
import { findOrphans } from "../sql/findOrphans.ts"
import { findSecret } from "../sql/findSecret.ts"
import { findUploadOrphans } from "../sql/findUploadOrphans.ts"
import { readLineage } from "../sql/lineage.ts"
import { firstBlobs, isNamed, listNamedBlobs } from "../sql/listNamedBlobs.ts"
import { listWorkers } from "../sql/listWorkers.ts"
import { readDuePurges } from "../sql/readDuePurges.ts"
import { findDamage } from "./findDamage.ts"
import { schemaDrift } from "./schemaDrift.ts"

/** Rows read at once: a listing never holds the store for long. */
const pageSize = 500

/** Opens a store for inspection, also while a server runs on it. `undefined` where there is no database yet. */
export const inspectSqlite = (
  options: SqliteOptions,
): Effect.Effect<StoreInspection | undefined, StoreUnavailable, Scope.Scope> =>
  Effect.map(openReadOnly(options.path), (database) => (database === undefined ? undefined : inspectionOf(database)))

const inspectionOf = (db: Database): StoreInspection => ({
  migrations: db.read("inspect.migrations", () => migrationStatus(db.connection)),
  schemaDrift: db.read("inspect.schemaDrift", () => schemaDrift(db, migrations, migrationStatus(db.connection))),
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
  readLineage: db.read("inspect.readLineage", readLineage),
  findOrphans: (blobs) => db.read("inspect.findOrphans", (tx) => findOrphans(tx, blobs)),
  findUploadOrphans: (blobs) => db.read("inspect.findUploadOrphans", (tx) => findUploadOrphans(tx, blobs)),
})
