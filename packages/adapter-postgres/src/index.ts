export { CopyCountsDiffer, type CopyTarget, CopyTargetNotEmpty, openCopyTarget } from "./copyInto.ts"
export { type PostgresBlobOptions, postgresBlobs, PostgresBlobStore } from "./blobs/PostgresBlobStore.ts"
export { inspectPostgres } from "./inspect.ts"
export type { KyselyTransaction, PgClient, QueryTransaction } from "./callers/CallerConnection.ts"
export type { PgPool, PgPoolClient } from "./hostPool.ts"
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
} from "./callers/handles.ts"
export type { PGliteDatabase } from "./pglite.ts"
export type { PostgresOptions } from "./openDatabase.ts"
export { postgresStore } from "./PostgresStores.ts"
export { postgresMigrations } from "./openDatabase.ts"
export { PostgresStores } from "./PostgresStores.ts"
