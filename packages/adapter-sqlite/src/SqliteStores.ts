import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { StoreUnavailable } from "@kiln/core/domain"
import {
  CallerTransactions,
  DeliveryStore,
  JobDirectory,
  JobStore,
  RateLimitStore,
  type StoreAdapter,
  storeAdapter,
  StorePlace,
  Switchboard,
  UploadStore,
  WakeUp,
} from "@kiln/core/ports"
import { coldStores, type SqlStore } from "@kiln/sql-store"
import { auditedDatabase, transactionsOf } from "./transactionsOf.ts"
import { makeSqliteSwitchboard } from "./board.ts"
import type { BetterSqliteDatabase, KyselyTransaction } from "./callers/handles.ts"
import { makeSqliteCallerTransactions } from "./callers/SqliteCallerTransactions.ts"
import { CommitWatch } from "./CommitWatch.ts"
import { makeSqliteJobDirectory } from "./jobs/directory.ts"
import { makeSqliteJobStore } from "./jobs/SqliteJobStore.ts"
import { checkSqliteOptions, openDatabase, type SqliteOptions } from "./openDatabase.ts"
import { sqlitePlace } from "./disk/DatabaseFile.ts"
import { makeSqliteDeliveryStore, makeSqliteRateLimitStore } from "./coldStores.ts"
import { makeSqliteUploadStore } from "./uploads.ts"

/**
 * The wake-up within this process, which also hears what other connections commit: for waiting callers, and for a worker from its first
 * wait on. Its reach stays that of the process, so workers poll as if they did not hear.
 */
const makeWakeUp = (watch: CommitWatch): Effect.Effect<WakeUp["Service"], never, Scope.Scope> =>
  Effect.gen(function* () {
    const within = Context.get(yield* Layer.build(WakeUp.layer), WakeUp)
    const scope = yield* Effect.scope
    let isHearing = false
    const hear = Effect.suspend(() => {
      if (isHearing) return Effect.void
      isHearing = true
      return Scope.provide(
        watch.onWrite(() => Effect.runSync(within.notify)),
        scope,
      )
    })
    return WakeUp.of({
      ...within,
      wait: Effect.andThen(hear, within.wait),
      onFinished: (finished) => watch.onCommit(() => finished("any")),
    })
  })

/**
 * All record stores in one SQLite file on a local disk. What a verb has returned for survives a crash of the process and a loss of
 * power (`synchronous=FULL`). Several processes of one machine may share the file. Store time is the Effect `Clock`, and never goes
 * backwards (`StoreTime`). The file holds secrets and request data, so it is readable by its owner only.
 *
 * Jobs may be created in transactions of the embedding program on the same file (`CallerTransactions`), which also wake up the
 * workers of this process. The file may be that program's own: the names of kiln's tables, indexes and triggers begin with `kiln_`.
 */
export const SqliteStores = {
  /** Fails with `StoreUnavailable` if the file cannot be opened or migrated. */
  layer: (options: SqliteOptions): Layer.Layer<SqlStore, StoreUnavailable> =>
    Layer.effectContext(
      Effect.gen(function* () {
        const database = yield* openDatabase(options)
        const recording = auditedDatabase(database)
        const watch = new CommitWatch(database)
        const wakeUp = yield* makeWakeUp(watch)
        yield* Effect.forkScoped(watch.run(wakeUp.notify))
        return Context.make(JobStore, makeSqliteJobStore(database)).pipe(
          Context.add(JobDirectory, makeSqliteJobDirectory(database)),
          Context.merge(coldStores(transactionsOf(database), transactionsOf(recording))),
          Context.add(UploadStore, makeSqliteUploadStore(database)),
          Context.add(Switchboard, makeSqliteSwitchboard(recording)),
          Context.add(DeliveryStore, makeSqliteDeliveryStore(recording)),
          Context.add(RateLimitStore, makeSqliteRateLimitStore(database)),
          Context.add(StorePlace, sqlitePlace(options.path, options.allowCopies)),
          Context.add(WakeUp, wakeUp),
          Context.add(CallerTransactions, yield* makeSqliteCallerTransactions(database, watch)),
        )
      }),
    ),
}

/**
 * All record stores in one SQLite file, for programs without Effect: see `SqliteStores`. Jobs may be created in a transaction of
 * yours, which is a better-sqlite3 database that has the same file open and is in a transaction (also without waiting), or a
 * transaction of Kysely over `SqliteDialect`. Throws `TypeError` for invalid options.
 *
 * SQLite has one writer: while such a transaction has written and is open, other transactions and the workers wait for it. Keep it
 * short, and begin it with `BEGIN IMMEDIATE` if it reads before it writes.
 */
export const sqliteStore = (
  options: SqliteOptions,
): StoreAdapter<KyselyTransaction | BetterSqliteDatabase, BetterSqliteDatabase> => {
  checkSqliteOptions(options)
  return storeAdapter<KyselyTransaction | BetterSqliteDatabase, BetterSqliteDatabase>(SqliteStores.layer(options))
}
