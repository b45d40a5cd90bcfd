import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StoreUnavailable } from "@kiln/core/domain"
import {
  CallerTransactions,
  JobDirectory,
  JobStore,
  KeyDirectory,
  SecretStore,
  Switchboard,
  UploadStore,
  WakeUp,
} from "@kiln/core/ports"
import { CommitWatch } from "./callers/CommitWatch.ts"
import { openDatabase, type SqliteOptions } from "./openDatabase.ts"
import { makeSqliteCallerTransactions } from "./SqliteCallerTransactions.ts"
import { makeSqliteJobDirectory } from "./SqliteJobDirectory.ts"
import { makeSqliteJobStore } from "./SqliteJobStore.ts"
import { makeSqliteKeyDirectory } from "./SqliteKeyDirectory.ts"
import { makeSqliteSecretStore } from "./SqliteSecretStore.ts"
import { makeSqliteSwitchboard } from "./SqliteSwitchboard.ts"
import { makeSqliteUploadStore } from "./SqliteUploadStore.ts"
import { makeSqliteWakeUp } from "./SqliteWakeUp.ts"

type Stores =
  | JobStore
  | JobDirectory
  | UploadStore
  | KeyDirectory
  | Switchboard
  | SecretStore
  | WakeUp
  | CallerTransactions

/**
 * All record stores in one SQLite file, on a local disk. What a verb returned for survives the
 * process and the power (`synchronous=FULL`); several processes of one machine may share the file.
 * Store time is the Effect `Clock`, so the machine's, and never goes backwards (`StoreTime`). The file holds secrets and request data: it
 * is made readable by its owner only.
 *
 * Jobs may be created in transactions of the embedding program on the same file (`CallerTransactions`); the wake-up within
 * this process comes along, since it is told of those. The file may be that program's own: the names of kiln's tables, indexes and
 * triggers begin with `kiln_`.
 */
export const SqliteStores = {
  /** Fails with `StoreUnavailable` where the file cannot be opened, or its schema not brought up to date. */
  layer: (options: SqliteOptions): Layer.Layer<Stores, StoreUnavailable> =>
    Layer.effectContext(
      Effect.gen(function* () {
        const database = yield* openDatabase(options)
        const watch = new CommitWatch(database)
        const wakeUp = yield* makeSqliteWakeUp(watch)
        yield* Effect.forkScoped(watch.run(wakeUp.notify))
        return Context.make(JobStore, makeSqliteJobStore(database)).pipe(
          Context.add(JobDirectory, makeSqliteJobDirectory(database)),
          Context.add(UploadStore, makeSqliteUploadStore(database)),
          Context.add(KeyDirectory, makeSqliteKeyDirectory(database)),
          Context.add(Switchboard, makeSqliteSwitchboard(database)),
          Context.add(SecretStore, makeSqliteSecretStore(database)),
          Context.add(WakeUp, wakeUp),
          Context.add(CallerTransactions, yield* makeSqliteCallerTransactions(database, watch)),
        )
      }),
    ),
}
