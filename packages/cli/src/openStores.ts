import { accessSync, constants } from "node:fs"
import { dirname } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Flag from "effect/cli/Flag"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import { makeDirectory, SqliteStores } from "@kiln/adapter-sqlite"
import { describeDiskProblem, type StoreUnavailable } from "@kiln/core/domain"
import type {
  AuditLog,
  DeliveryStore,
  JobDirectory,
  JobStore,
  KeyDirectory,
  MinuteHistory,
  OperatorTokens,
  ScheduleStore,
  SecretStore,
  StorePlace,
  Switchboard,
  UploadStore,
} from "@kiln/core/ports"
import { causeMessage, codesOf, type CommandFailed, failed } from "./CommandFailed.ts"
import type { DatabasePlace, PostgresPlace, SqlitePlace } from "./database/DatabasePlace.ts"
import { explainDatabase } from "./database/databaseProblem.ts"
import { loadPostgres } from "./database/loadPostgres.ts"
import type { Settings } from "./Settings.ts"

/** All records of an installation. */
export type Stores =
  | AuditLog
  | OperatorTokens
  | MinuteHistory
  | DeliveryStore
  | JobStore
  | JobDirectory
  | UploadStore
  | KeyDirectory
  | ScheduleStore
  | Switchboard
  | SecretStore
  | StorePlace

/** Creates the data directory, and fails with a clear message if it is not writable. */
export const prepareDirectory = (path: string): Effect.Effect<void, CommandFailed> =>
  Effect.try({
    try: () => {
      makeDirectory(path)
      accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
    },
    catch: (cause) => {
      const remedy =
        describeDiskProblem(codesOf(cause)[0], { path, freeBytes: undefined }) ??
        "set KILN_DATA_DIR to one that this user may write"
      return failed(`cannot write to the data directory ${path} (${causeMessage(cause)}): ${remedy}`)
    },
  })

const explained = <A>(place: DatabasePlace, stores: Layer.Layer<A, StoreUnavailable>): Layer.Layer<A, CommandFailed> =>
  Layer.effectContext(explainDatabase(place)(Layer.build(stores)))

/** `--init`, accepted by every command. */
export const Init = GlobalFlag.Setting("init")({
  flag: Flag.Boolean("init").pipe(
    Flag.withDescription("Create the database if it does not exist; `kiln serve` always does"),
    Flag.withDefault(false),
  ),
})

/** The requirement of effects that read `--init`. */
export type InitFlag = GlobalFlag.Setting.Identifier<"init">

const openSqlite = (place: SqlitePlace): Layer.Layer<Stores, CommandFailed> =>
  Layer.unwrap(
    Effect.as(
      prepareDirectory(dirname(place.path)),
      explained(place, SqliteStores.layer({ path: place.path, allowCopies: place.allowCopies })),
    ),
  )

const openPostgres = (place: PostgresPlace): Layer.Layer<Stores, CommandFailed> =>
  Layer.unwrap(
    Effect.map(loadPostgres, ({ PostgresStores }) => {
      const { _tag, ...options } = place
      return explained(place, PostgresStores.layer(options))
    }),
  )

/** Opens the configured stores, even while a server is running on them. */
export const openStores = ({ database }: Settings): Layer.Layer<Stores, CommandFailed> =>
  database._tag === "Sqlite" ? openSqlite(database) : openPostgres(database)

/** Like `openStores`, for short commands: no notifications, and only one connection. */
export const openStoresBriefly = ({ database }: Settings): Layer.Layer<Stores, CommandFailed> =>
  database._tag === "Sqlite"
    ? openSqlite(database)
    : openPostgres({ ...database, poolSize: 2, notifications: database.notifications && "send" })
