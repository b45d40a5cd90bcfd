import { storeAdapter, type StoreAdapter } from "@kiln/core/ports"
import type { KyselyTransaction, PgClient } from "./CallerHandle.ts"
import { checkPostgresOptions, type PostgresOptions } from "./openDatabase.ts"
import { PostgresStores } from "./PostgresStores.ts"

/**
 * All record stores in one schema of a Postgres database, for programs without Effect. Jobs can be created inside a
 * transaction that the program began on a client of `pg`, or with Kysely. Throws `TypeError` for options that cannot be used.
 */
export const postgresStore = (options: PostgresOptions): StoreAdapter<PgClient | KyselyTransaction> => {
  checkPostgresOptions(options)
  return storeAdapter(PostgresStores.layer(options))
}
