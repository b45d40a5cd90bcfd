import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable } from "@kiln/core/domain"
import {
  CallerTransactions,
  JobDirectory,
  JobStore,
  KeyDirectory,
  SecretStore,
  storeAdapter,
  type StoreAdapter,
  Switchboard,
  UploadStore,
  WakeUp,
} from "@kiln/core/ports"
import { LaneNotes } from "./jobs/LanePositions.ts"
import { checkPostgresOptions, openDatabase, type OpenDatabase, type PostgresOptions } from "./openDatabase.ts"
import { makePostgresCallerTransactions } from "./callers/CallerTransactions.ts"
import { makePostgresJobDirectory } from "./directory.ts"
import { makePostgresJobStore } from "./jobs/JobStore.ts"
import { makePostgresKeyDirectory } from "./keys.ts"
import { makePostgresSecretStore } from "./secrets.ts"
import { makePostgresSwitchboard } from "./board.ts"
import { makePostgresUploadStore } from "./uploads/UploadStore.ts"
import { hintOnce, makePostgresWakeUp, makeTeller, type PostgresWakeUp } from "./wakeUp/WakeUp.ts"
import { noteTurns } from "./jobs/nextClaimable.ts"
import type { KyselyTransaction, PgClient } from "./callers/CallerConnection.ts"

/** What the layer provides. */
type PostgresStore =
  | JobStore
  | JobDirectory
  | CallerTransactions
  | UploadStore
  | KeyDirectory
  | Switchboard
  | SecretStore
  | WakeUp

/** Hears of nothing but its own process; and tells others of work and of what ended here, or not even that. */
const deafWakeUp = (
  { connections, database }: OpenDatabase,
  tells: boolean,
): Effect.Effect<PostgresWakeUp, never, Scope.Scope> =>
  Effect.gen(function* () {
    const wakeUp = Context.get(yield* Layer.build(WakeUp.layer), WakeUp)
    if (!tells) return { wakeUp, tellFinished: () => undefined }
    const { tellFinished, tellWork } = yield* makeTeller(database, connections)
    return {
      wakeUp: WakeUp.of({ ...wakeUp, notify: Effect.andThen(wakeUp.notify, Effect.sync(tellWork)) }),
      tellFinished,
    }
  })

/** NOTIFY goes through a pooler in transaction mode, LISTEN does not. */
const notificationsOf = ({ notifications = true, pooler }: PostgresOptions): boolean | "send" =>
  notifications === true && pooler === "transaction" ? "send" : notifications

/**
 * All record stores in one schema of a Postgres database, for any number of processes on any number of machines. What a
 * verb returned for was committed with `synchronous_commit = on`. Store time is the database's clock. The database
 * holds secrets and request data: give its role to nobody else.
 *
 * Unless notifications are turned off, the layer brings the wake-up between processes as well.
 */
export const PostgresStores = {
  /** Fails with `StoreUnavailable` where the database cannot be reached, or its schema not brought up to date. */
  layer: (options: PostgresOptions): Layer.Layer<PostgresStore, StoreUnavailable> =>
    Layer.effectContext(
      Effect.gen(function* () {
        const open = yield* openDatabase(options)
        const { connections, database, heartbeats } = open
        const notifications = notificationsOf(options)
        const hint = notifications === false ? Effect.void : hintOnce(database, connections)
        const { tellFinished, wakeUp } =
          notifications === true
            ? yield* makePostgresWakeUp(connections, database)
            : yield* deafWakeUp(open, notifications === "send")
        const notes = new LaneNotes(options.noteLanesEveryMs ?? 1_000)
        yield* Effect.addFinalizer(() =>
          Effect.ignore(database.read("LaneNotes.rest", (session) => noteTurns(session, notes.rest()))),
        )
        return Context.make(JobStore, makePostgresJobStore(database, heartbeats, notes, tellFinished)).pipe(
          Context.add(JobDirectory, makePostgresJobDirectory(database)),
          Context.add(
            CallerTransactions,
            makePostgresCallerTransactions(database, connections, notifications !== false),
          ),
          Context.add(UploadStore, makePostgresUploadStore(database, heartbeats)),
          Context.add(KeyDirectory, makePostgresKeyDirectory(database)),
          Context.add(Switchboard, makePostgresSwitchboard(database, hint)),
          Context.add(SecretStore, makePostgresSecretStore(database)),
          Context.add(WakeUp, wakeUp),
        )
      }),
    ),
}

/**
 * All record stores in one schema of a Postgres database, for programs without Effect. Jobs can be created inside a
 * transaction that the program began on a client of `pg`, or with Kysely. Throws `TypeError` for options that cannot be used.
 */
export const postgresStore = (options: PostgresOptions): StoreAdapter<PgClient | KyselyTransaction> => {
  checkPostgresOptions(options)
  return storeAdapter(PostgresStores.layer(options))
}
