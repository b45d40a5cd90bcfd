export { CopyCountsDiffer, type CopyTarget, CopyTargetNotEmpty, openCopyTarget } from "./copyInto.ts"
export { type PostgresBlobOptions, postgresBlobs, PostgresBlobStore } from "./blobs/PostgresBlobStore.ts"
export { inspectPostgres } from "./inspect/inspectPostgres.ts"
export type { KyselyTransaction, PgClient, QueryTransaction } from "./callers/CallerConnection.ts"
export type { PgPool, PgPoolClient } from "./connection/hostPool.ts"
export {
  type DrizzleTransaction,
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  type KnexTransaction,
  type PostgresJsTransaction,
  type PrismaTransaction,
} from "./callers/CallerConnection.ts"
export type { PGliteDatabase } from "./connection/pglite.ts"
export type { PostgresOptions } from "./connection/options.ts"
export { postgresStore } from "./PostgresStores.ts"
export { postgresMigrations } from "./connection/openDatabase.ts"
export { PostgresStores } from "./PostgresStores.ts"
