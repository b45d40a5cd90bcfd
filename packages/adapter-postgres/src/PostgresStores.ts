import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable } from "@kiln/core/domain"
import {
  CallerTransactions,
  DeliveryStore,
  JobDirectory,
  JobStore,
  RateLimitStore,
  storeAdapter,
  type StoreAdapter,
  StorePlace,
  Switchboard,
  UploadStore,
  WakeUp,
} from "@kiln/core/ports"
import { coldStores, type SqlStore } from "@kiln/sql-store"
import type { Database } from "./connection/Database.ts"
import { auditedDatabase, transactionsOf } from "./transactionsOf.ts"
import { LanePositions } from "./jobs/LanePositions.ts"
import { openDatabase, type OpenDatabase } from "./connection/openDatabase.ts"
import { checkPostgresOptions, type PostgresOptions } from "./connection/options.ts"
import { makePostgresCallerTransactions } from "./callers/CallerTransactions.ts"
import { makePostgresJobDirectory } from "./jobs/directory.ts"
import { makePostgresJobStore } from "./jobs/JobStore.ts"
import { RememberedFacts } from "./jobs/RememberedFacts.ts"
import { SignaledJobs } from "./jobs/waitingJobs.ts"
import { makePostgresPlace } from "./place.ts"
import { makePostgresDeliveryStore, makePostgresRateLimitStore } from "./coldStores.ts"
import { makePostgresSwitchboard } from "./board.ts"
import { makePostgresUploadStore } from "./uploads.ts"
import { hintOnce, makeNotifiers, makePostgresWakeUp, type PostgresWakeUp } from "./wakeUp/WakeUp.ts"
import { saveTurns } from "./jobs/nextClaimable.ts"
import type { KyselyTransaction, PgClient, QueryTransaction } from "./callers/CallerConnection.ts"

/** Wakes only within its own process; if `tells` is set, also notifies others of work and of finished jobs. */
const localWakeUp = (
  { connections, database }: OpenDatabase,
  tells: boolean,
): Effect.Effect<PostgresWakeUp, never, Scope.Scope> =>
  Effect.gen(function* () {
    const wakeUp = Context.get(yield* Layer.build(WakeUp.layer), WakeUp)
    if (!tells) return { wakeUp, announceFinished: () => undefined }
    const { announceFinished, announceWork } = yield* makeNotifiers(database, connections)
    return {
      wakeUp: WakeUp.of({ ...wakeUp, notify: Effect.andThen(wakeUp.notify, Effect.sync(announceWork)) }),
      announceFinished,
    }
  })

/** Wakes workers when the one connection of the database is free: the transaction that holds it, and added jobs, has ended. */
const wakeWhenFree = (database: Database, wakeUp: WakeUp["Service"]): void => {
  const free = Effect.ignore(database.read("WakeUp.notify", () => Promise.resolve()))
  void Effect.runPromise(Effect.andThen(free, wakeUp.notify))
}

/** NOTIFY works through a pooler in transaction mode, LISTEN does not. Nobody else is connected to PGlite. */
const notificationsOf = ({ notifications = true, pglite, pooler }: PostgresOptions): boolean | "send" =>
  pglite !== undefined ? false : notifications === true && pooler === "transaction" ? "send" : notifications

/**
 * All record stores in one schema of a Postgres database, for any number of processes on any number of machines. Once a verb
 * returns, its changes are committed with `synchronous_commit = on`. Store time is the database's clock. The database
 * contains secrets and request data, so do not share its role.
 *
 * Unless notifications are off, the layer also provides the wake-up between processes.
 */
export const PostgresStores = {
  /** Fails with `StoreUnavailable` if the database cannot be reached or the schema cannot be brought up to date. */
  layer: (options: PostgresOptions): Layer.Layer<SqlStore, StoreUnavailable> =>
    Layer.effectContext(
      Effect.gen(function* () {
        const open = yield* openDatabase(options)
        const { callers, connections, database, heartbeats } = open
        // Before callers hold every connection of their pool: while they wait for kiln, they release none.
        if (callers !== database) yield* callers.read("connect", () => Promise.resolve())
        const recording = auditedDatabase(database)
        const notifications = notificationsOf(options)
        const hint = notifications === false ? Effect.void : hintOnce(database, connections)
        const signaled = new SignaledJobs(database)
        const { announceFinished, carrier, wakeUp } =
          notifications === true
            ? yield* makePostgresWakeUp(open, undefined, signaled)
            : yield* localWakeUp(open, notifications === "send")
        const facts = new RememberedFacts(database)
        const positions = new LanePositions(options.noteLanesEveryMs ?? 1_000)
        yield* Effect.addFinalizer(() =>
          Effect.ignore(database.read("LanePositions.unsaved", (session) => saveTurns(session, positions.unsaved()))),
        )
        return Context.make(
          JobStore,
          makePostgresJobStore(database, heartbeats, facts, positions, announceFinished, carrier, signaled),
        ).pipe(
          Context.add(JobDirectory, makePostgresJobDirectory(database)),
          Context.add(
            CallerTransactions,
            makePostgresCallerTransactions(
              callers,
              callers === database ? facts : new RememberedFacts(callers),
              connections,
              notifications !== false,
              options.pglite === undefined ? undefined : () => wakeWhenFree(database, wakeUp),
            ),
          ),
          Context.merge(coldStores(transactionsOf(database), transactionsOf(recording))),
          Context.add(UploadStore, makePostgresUploadStore(database, heartbeats)),
          Context.add(Switchboard, makePostgresSwitchboard(recording, hint)),
          Context.add(DeliveryStore, makePostgresDeliveryStore(recording)),
          Context.add(RateLimitStore, makePostgresRateLimitStore(database)),
          Context.add(StorePlace, makePostgresPlace(database, connections, options)),
          Context.add(WakeUp, wakeUp),
        )
      }),
    ),
}

/**
 * All record stores in one schema of a Postgres database, for programs without Effect. Jobs can be created inside the program's
 * own transaction: begun on a `pg` client, with Kysely, or with anything that has `query(text, values)`. Throws `TypeError` for invalid options.
 */
export const postgresStore = (
  options: PostgresOptions,
): StoreAdapter<PgClient | KyselyTransaction | QueryTransaction> => {
  checkPostgresOptions(options)
  return storeAdapter(PostgresStores.layer(options))
}
