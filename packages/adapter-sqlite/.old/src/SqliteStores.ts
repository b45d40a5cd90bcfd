import { Context, Effect, Layer } from "effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import { JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { openDatabase, type SqliteOptions } from "./openDatabase.ts"
import { makeSqliteJobStore } from "./SqliteJobStore.ts"
import { makeSqliteKeyDirectory } from "./SqliteKeyDirectory.ts"
import { makeSqliteSecretStore } from "./SqliteSecretStore.ts"
import { makeSqliteSwitchboard } from "./SqliteSwitchboard.ts"
import { makeSqliteUploadStore } from "./SqliteUploadStore.ts"

/**
 * All record stores in one SQLite file, on a local disk. What a verb returned for survives the
 * process and the power (`synchronous=FULL`); several processes of one machine may share the file.
 * Store time is the Effect `Clock`, so the machine's. The file holds secrets and request data: it
 * is made readable by its owner only.
 */
export const SqliteStores = {
  /** Fails with `StoreUnavailable` where the file cannot be opened, or its schema not brought up to date. */
  layer: (
    options: SqliteOptions,
  ): Layer.Layer<JobStore | UploadStore | KeyDirectory | Switchboard | SecretStore, StoreUnavailable> =>
    Layer.effectContext(
      Effect.map(openDatabase(options), (database) =>
        Context.make(JobStore, makeSqliteJobStore(database)).pipe(
          Context.add(UploadStore, makeSqliteUploadStore(database)),
          Context.add(KeyDirectory, makeSqliteKeyDirectory(database)),
          Context.add(Switchboard, makeSqliteSwitchboard(database)),
          Context.add(SecretStore, makeSqliteSecretStore(database)),
        ),
      ),
    ),
}
