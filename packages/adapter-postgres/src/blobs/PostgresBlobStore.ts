import { type BlobUnavailable, type OptionNames, requireOptions } from "@kiln/core/domain"
import { type BlobAdapter, blobAdapter, BlobStore, requireBlobKey } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Database } from "../connection/Database.ts"
import { openDatabase } from "../connection/openDatabase.ts"
import { checkPostgresOptions, type PostgresOptions } from "../connection/options.ts"
import { ago, type Given, query, statement } from "../Statement.ts"
import { open, put, reporting } from "./transfer.ts"
/** The options of `PostgresOptions` that concern blobs. The schema may be the one of the records or another. */
export interface PostgresBlobOptions extends Pick<
  PostgresOptions,
  | "pool"
  | "pglite"
  | "url"
  | "password"
  | "ssl"
  | "schema"
  | "pooler"
  | "migrate"
  | "connectTimeoutMs"
  | "statementTimeoutMs"
  | "lockTimeoutMs"
> {
  /** Maximum number of connections, default 5, at least 2. A connection is used only while a chunk is read or written. */
  readonly poolSize?: number | undefined
}

const optionNames: OptionNames<PostgresBlobOptions> = {
  pool: true,
  pglite: true,
  url: true,
  password: true,
  ssl: true,
  schema: true,
  poolSize: true,
  pooler: true,
  migrate: true,
  connectTimeoutMs: true,
  statementTimeoutMs: true,
  lockTimeoutMs: true,
}

/** Blobs are not announced. */
const withDefaults = (options: PostgresBlobOptions): PostgresOptions => ({
  ...options,
  poolSize: options.poolSize ?? 5,
  notifications: false,
})

/**
 * Stores blobs in a Postgres database, in chunks of 256 KiB, for installations of several machines that have nothing but a
 * database. Blobs are then part of its backups and replicas, and count toward its size: prefer S3 or shared files from about
 * 100 GB on, or when uploads make up most of the writes.
 *
 * Each put and each reader holds one chunk in memory, and a connection only while a chunk is transferred. A blob becomes readable
 * with the transaction that names it. Chunks left by a killed process are deleted after a day, at startup and when blobs are
 * listed.
 */
export const PostgresBlobStore = {
  /** Fails with `BlobUnavailable` if the database cannot be reached or the schema cannot be brought up to date. */
  layer: (options: PostgresBlobOptions): Layer.Layer<BlobStore, BlobUnavailable> =>
    Layer.effect(
      BlobStore,
      Effect.gen(function* () {
        const { database } = yield* reporting("start")(openDatabase(withDefaults(options)))
        yield* sweep(database)
        return BlobStore.of({
          put: put(database),
          open: open(database),
          remove: remove(database),
          list: list(database),
        })
      }),
    ),
}

/** Stores blobs in a Postgres database. For programs without Effect; see `PostgresBlobStore`. Throws `TypeError` for invalid options. */
export const postgresBlobs = (options: PostgresBlobOptions): BlobAdapter => {
  requireOptions("postgresBlobs()", options, optionNames)
  checkPostgresOptions(withDefaults(options))
  return blobAdapter(PostgresBlobStore.layer(options))
}

/** The keys at and under a prefix are one range, because `/` sorts right before `0` and no key has a smaller character. */
const removeSome = statement((given: Given<{ prefix: string; end: string; limit: number }>) =>
  query
    .deleteFrom("blobs")
    .where("id", "in", (from) =>
      from
        .selectFrom("blobs")
        .select("id")
        .where("key", ">=", given.prefix)
        .where("key", "<", given.end)
        .orderBy("key")
        .limit(given.limit),
    ),
)

const endOf = (prefix: string): string => `${prefix}0`

/** Blobs per statement: their chunks are deleted with them. */
const REMOVED_AT_ONCE = 100

const remove = (db: Database): BlobStore["Service"]["remove"] =>
  Effect.fnUntraced(function* (prefix) {
    yield* requireBlobKey(prefix)
    const parameters = { prefix, end: endOf(prefix), limit: REMOVED_AT_ONCE }
    yield* reporting("remove")(
      untilFewer(db.read("BlobStore.remove", (session) => session.run(removeSome, parameters))),
    )
  })

/** Repeats a removal until it finds fewer than it may remove. */
const untilFewer = <E>(removal: Effect.Effect<number, E>): Effect.Effect<void, E> =>
  Effect.asVoid(Effect.repeat(removal, { while: (removed) => removed === REMOVED_AT_ONCE }))

const keysAfter = statement((given: Given<{ after: string; end: string; limit: number }>) =>
  query
    .selectFrom("blobs")
    .select("key")
    .where("key", ">", given.after)
    .where("key", "<", given.end)
    .orderBy("key")
    .limit(given.limit)
    .$narrowType<{ key: string }>(),
)

const PAGE = 1_000

/** Sweeps first: the orphan sweep lists regularly, even in a store without writes. */
const list =
  (db: Database): BlobStore["Service"]["list"] =>
  (prefix) =>
    Stream.concat(
      Stream.fromEffectDrain(Effect.andThen(requireBlobKey(prefix), sweep(db))),
      Stream.paginate(`${prefix}/`, (after) =>
        Effect.map(
          reporting("list")(
            db.read("BlobStore.list", (session) => session.all(keysAfter, { after, end: endOf(prefix), limit: PAGE })),
          ),
          (rows) => {
            const keys = rows.map(({ key }) => key)
            const last = rows.length === PAGE ? keys.at(-1) : undefined
            return [keys, last === undefined ? Option.none() : Option.some(last)] as const
          },
        ),
      ),
    )

/** Longer than any upload or provider call may take. */
const ABANDONED_AFTER_MS = 86_400_000

const removeAbandoned = statement((given: Given<{ age: number; limit: number }>) =>
  query
    .deleteFrom("blobs")
    .where("id", "in", (from) =>
      from
        .selectFrom("blobs")
        .select("id")
        .where("key", "is", null)
        .where("begun_at", "<", ago(given.age))
        .orderBy("begun_at")
        .limit(given.limit),
    ),
)

/** Deletes what killed processes left unfinished. Best effort: a failure leaves it to the next sweep. */
const sweep = (db: Database): Effect.Effect<void> =>
  Effect.ignore(
    untilFewer(
      db.read("BlobStore.sweep", (session) =>
        session.run(removeAbandoned, { age: ABANDONED_AFTER_MS, limit: REMOVED_AT_ONCE }),
      ),
    ),
  )
