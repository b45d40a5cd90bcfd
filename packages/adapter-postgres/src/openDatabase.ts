import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import {
  type OptionNames,
  requireFlag,
  requireNumber,
  requireOneOf,
  requireOptions,
  type StoreUnavailable,
} from "@kiln/core/domain"
import type { MigrationStatus } from "@kiln/core/ports"
import {
  beginBriefStatement,
  beginStatement,
  type ConnectionOptions,
  type ListeningClient,
  makePool,
  newListeningClient,
  type Password,
  type Ssl,
  types,
} from "./Connections.ts"
import { addressOfPool, hasPassword, hasSsl, requireUrl } from "./connectionUrl.ts"
import { HostListeningClient, HostPool, HostSource, type PgPool } from "./hostPool.ts"
import { type PGliteDatabase, PGliteSource } from "./pglite.ts"
import type { ConnectionSource } from "./Session.ts"
import { Database } from "./Database.ts"
import { makeSameDatabase } from "./sameDatabase.ts"
import { applyMigrations, migrate, migrationStatus } from "./migrate.ts"
import { type CountedPool, measurePool } from "./poolMetrics.ts"

export interface PostgresOptions {
  /**
   * A `Pool` of the driver `pg` that belongs to your program, instead of `url`. kiln neither ends it nor changes settings of its
   * connections beyond a transaction. While the store is open, kiln keeps up to three of them: one listens, one is for heartbeats and one for
   * jobs in your transactions; the others are borrowed for a step each. Stop the engine before you end the pool.
   */
  readonly pool?: PgPool | undefined
  /**
   * A database of PGlite, instead of `url`: Postgres in this process, for development and tests. It has one connection, so steps run one
   * after the other, and no other process can use it. Close it after the engine has stopped.
   */
  readonly pglite?: PGliteDatabase | undefined
  /**
   * `postgres://user:password@host:port/database`, with the driver's options behind it, `?sslmode=verify-full` among them; for a Unix
   * socket, `postgres:///database?host=/var/run/postgresql`. Percent-encode special characters of user and password.
   */
  readonly url?: string | undefined
  /** The password, or a function that returns it for each new connection, for example a token that expires. Not with one in the URL. */
  readonly password?: Password | undefined
  /** Whether connections are encrypted, or how, as Node's TLS takes it (`ca`, `cert`, `key`). Not with `sslmode` in the URL. */
  readonly ssl?: Ssl | undefined
  /** The schema for all tables, created if it does not exist. Default `kiln`; must be a plain lower-case name. */
  readonly schema?: string | undefined
  /**
   * Maximum number of connections, default 10, at least 2: one is reserved for heartbeats. Listening takes one more. Of a `pool`, the most
   * that kiln uses at the same time, listening included.
   */
  readonly poolSize?: number | undefined
  /**
   * Whether processes wake each other with LISTEN and NOTIFY, default true. Turn it off for databases without them (CockroachDB,
   * YugabyteDB): processes then poll every second, as with SQLite. `send` is for short-lived programs: it notifies others but
   * does not listen. Use the same setting in all processes: workers that listen poll only every 30 seconds and would find
   * jobs from a process without notifications that late.
   */
  readonly notifications?: boolean | "send" | undefined
  /**
   * A connection pooler between this process and the server, default `none`. Behind a pooler in transaction mode (pgbouncer)
   * each transaction may use another server session: no prepared statements, no session settings, no LISTEN. NOTIFY works, so
   * `notifications` is `send` unless it is off.
   */
  readonly pooler?: "none" | "transaction" | undefined
  /** Whether pending migrations are applied on opening, default true. If false, opening fails when any is pending. */
  readonly migrate?: boolean | undefined
  /** Milliseconds to wait for a connection, default 3,000. */
  readonly connectTimeoutMs?: number | undefined
  /** Milliseconds one statement may take, default 10,000. */
  readonly statementTimeoutMs?: number | undefined
  /** Milliseconds a statement waits for a lock, default 3,000. */
  readonly lockTimeoutMs?: number | undefined
  /**
   * Milliseconds between two updates of the projects' positions in the database, default 1,000; 0 updates them with every
   * claim. In between, each process uses its own counts.
   */
  readonly noteLanesEveryMs?: number | undefined
  /** Milliseconds for which a step that conflicts with others is retried, default 5,000. */
  readonly retryForMs?: number | undefined
  /** Milliseconds for which an unreachable server is retried before a verb fails with `StoreUnavailable`, default 1,000. */
  readonly reconnectForMs?: number | undefined
  /**
   * Whether a worker may run the jobs of a copy of the database, default false: a copy has the queued jobs of the original, which
   * runs them too, so a worker refuses to start on one until it is adopted (`operator.adoptCopy`). For databases that a program
   * copies itself, such as templates of tests.
   */
  readonly allowCopies?: boolean | undefined
}

const optionNames: OptionNames<PostgresOptions> = {
  pool: true,
  pglite: true,
  url: true,
  password: true,
  ssl: true,
  schema: true,
  poolSize: true,
  notifications: true,
  pooler: true,
  migrate: true,
  connectTimeoutMs: true,
  statementTimeoutMs: true,
  lockTimeoutMs: true,
  noteLanesEveryMs: true,
  retryForMs: true,
  reconnectForMs: true,
  allowCopies: true,
}

const times = [
  "connectTimeoutMs",
  "statementTimeoutMs",
  "lockTimeoutMs",
  "noteLanesEveryMs",
  "retryForMs",
  "reconnectForMs",
] as const

/** A day. A timer of more than 24 days would fire at once, and times are added up. */
const longestMs = 86_400_000

/** Throws `TypeError` for unknown or invalid options. */
export const checkPostgresOptions = (options: PostgresOptions): void => {
  requireOptions("postgresStore()", options, optionNames)
  const { allowCopies, migrate: migrates, notifications = true, pooler = "none", poolSize = 10 } = options
  requirePool(options)
  requirePGlite(options)
  serverOf(options)
  for (const name of times) requireNumber(name, options[name] ?? 0, { least: 0, most: longestMs })
  requireNumber("poolSize", poolSize, { least: 1, most: 10_000, whole: true })
  requireOneOf("pooler", pooler, ["none", "transaction"])
  if (notifications !== "send") requireFlag("notifications", notifications)
  requireFlag("migrate", migrates)
  requireFlag("allowCopies", allowCopies)
}

/** Where the server is, as the options say it. */
interface Server {
  readonly url: string
  readonly address: string
  readonly password: Password | undefined
  readonly ssl: Ssl | undefined
}

type ServerOptions = Pick<PostgresOptions, "url" | "pool" | "pglite" | "password" | "ssl">

/** Throws `TypeError` if an option is set that `given` makes pointless. */
const requireAlone = (options: ServerOptions, given: "pool" | "pglite"): void => {
  const surplus = (["url", "pool", "password", "ssl"] as const).find(
    (name) => name !== given && options[name] !== undefined,
  )
  if (surplus !== undefined) throw new TypeError(`pass either ${given} or ${surplus}`)
}

/** Throws `TypeError` unless the options say how to connect. */
const serverOf = (options: ServerOptions): Server => {
  const { password, pglite, pool, ssl, url } = options
  if (pglite !== undefined) {
    requireAlone(options, "pglite")
    return { url: "", address: "PGlite/", password: undefined, ssl: undefined }
  }
  if (pool !== undefined) {
    requireAlone(options, "pool")
    return { url: "", address: addressOfPool(pool), password: undefined, ssl: undefined }
  }
  if (typeof url !== "string" || url === "")
    throw new TypeError("postgresStore() requires the option url, a postgres:// URL; pool, a Pool of pg; or pglite")
  const address = requireUrl(url)
  if (password !== undefined && typeof password !== "string" && typeof password !== "function")
    throw new TypeError("password must be a string or a function that returns one")
  if (password !== undefined && hasPassword(url))
    throw new TypeError("the url contains a password, and the option password is set: pass one of them")
  if (ssl !== undefined && typeof ssl !== "boolean" && (typeof ssl !== "object" || ssl === null))
    throw new TypeError("ssl must be true, false or an object with options of TLS, for example { ca }")
  if (ssl !== undefined && hasSsl(url))
    throw new TypeError("the url has parameters for TLS, and the option ssl is set: pass one of them")
  return { url, address, password, ssl }
}

/** Connections of a program's pool that are kept: for heartbeats, and for jobs in the program's transactions, which hold others. */
const keptOfPool = 2

const listens = ({ notifications = true, pooler }: PostgresOptions): boolean =>
  notifications === true && pooler !== "transaction"

/** The most connections of the pool that kiln may use at once. Some pools do not tell their own limit. */
const mostOfPool = ({ pool, poolSize = 10 }: PostgresOptions): number => {
  const max = pool?.options !== undefined && "max" in pool.options ? pool.options.max : undefined
  return typeof max === "number" ? Math.min(max, poolSize) : poolSize
}

/** Throws `TypeError` for a database of PGlite that kiln cannot use. */
const requirePGlite = ({ notifications, pglite }: PostgresOptions): void => {
  if (pglite === undefined) return
  if (typeof pglite !== "object" || pglite === null || typeof pglite.execProtocolRaw !== "function")
    throw new TypeError("pglite must be a PGlite of @electric-sql/pglite, for example await PGlite.create()")
  if (notifications === "send") throw new TypeError("no other process can listen to PGlite: leave notifications unset")
}

/** Throws `TypeError` for a pool that kiln cannot use. */
const requirePool = (options: PostgresOptions): void => {
  const { pool } = options
  if (pool === undefined) return
  if (typeof pool !== "object" || pool === null || typeof pool.connect !== "function" || "processID" in pool)
    throw new TypeError("pool must be a Pool of the driver pg")
  if (pool.options !== undefined && "binary" in pool.options && pool.options.binary === true)
    throw new TypeError("pool must not have the option binary, which changes the results of kiln's statements")
  const needed = keptOfPool + (listens(options) ? 1 : 0) + 1
  const most = mostOfPool(options)
  if (most >= needed) return
  const less = listens(options) ? `, or set notifications: "send", with which ${needed - 1} are enough` : ""
  throw new TypeError(
    `kiln needs at least ${needed} connections of the pool, and may use ${most}: raise max of the pool and poolSize${less}`,
  )
}

/** Inserted without quoting into statements, channel names and session settings. */
const plainName = /^[a-z_][a-z0-9_]{0,50}$/

export const connectionOptions = (options: PostgresOptions): ConnectionOptions => {
  const { pooler = "none", schema = "kiln" } = options
  if (!plainName.test(schema))
    throw new TypeError(`schema must be a lower-case name of letters, digits and underscores: ${schema}`)
  // Connections of the program's pool are its own: as behind a pooler, they keep no settings and no prepared statements.
  const ownSessions = pooler === "none" && options.pool === undefined && options.pglite === undefined
  return {
    ...serverOf(options),
    schema,
    poolSize: Math.max(2, options.poolSize ?? 10),
    connectTimeoutMs: options.connectTimeoutMs ?? defaultConnectMs,
    statementTimeoutMs: options.statementTimeoutMs ?? 10_000,
    lockTimeoutMs: options.lockTimeoutMs ?? 3_000,
    prepared: ownSessions,
    ownSessions,
  }
}

const defaultConnectMs = 3_000

/** Time limit of one heartbeat: a later answer is too late for the leases, and the next heartbeat needs the connection. */
const heartbeatLimitMs = 5_000

/** The connections of one process. */
export interface OpenDatabase {
  readonly connections: ConnectionOptions
  readonly database: Database
  /** Uses its own connections. */
  readonly heartbeats: Database
  /** For steps that a caller's transaction waits for. Of a program's pool, it has its own connection: callers may hold the others. */
  readonly callers: Database
  /** Returns a client for notifications, not connected. */
  readonly listeningClient: () => ListeningClient
}

/** The sources of connections of one process, by what they are for. */
interface Sources {
  readonly shared: ConnectionSource & CountedPool
  readonly heartbeats: ConnectionSource & CountedPool
  readonly callers: ConnectionSource | undefined
  readonly sharedMax: number
  readonly listeningClient: () => ListeningClient
}

const ownSources = (connections: ConnectionOptions): Effect.Effect<Sources, never, Scope.Scope> =>
  Effect.gen(function* () {
    const verify = makeSameDatabase(true)
    const sharedMax = connections.poolSize - 1
    return {
      shared: yield* makePool(connections, "kiln", sharedMax, verify),
      heartbeats: yield* makePool(connections, "kiln heartbeats", 1, verify),
      callers: undefined,
      sharedMax,
      listeningClient: () => newListeningClient(connections),
    }
  })

const hostSources = (pool: PgPool, options: PostgresOptions): Effect.Effect<Sources, never, Scope.Scope> =>
  Effect.gen(function* () {
    // Behind a pooler, a connection does not stay with one server session.
    const check = options.pooler === "transaction" ? () => Promise.resolve() : makeSameDatabase(false)
    const host = new HostPool(pool, options.connectTimeoutMs ?? defaultConnectMs, types, check)
    const source = (max: number, keeps: boolean) =>
      Effect.acquireRelease(
        Effect.sync(() => new HostSource(host, max, keeps)),
        (opened) => Effect.sync(() => opened.close()),
      )
    const sharedMax = Math.max(1, mostOfPool(options) - keptOfPool - (listens(options) ? 1 : 0))
    return {
      shared: yield* source(sharedMax, false),
      heartbeats: yield* source(1, true),
      callers: yield* source(1, true),
      sharedMax,
      listeningClient: () => new HostListeningClient(host),
    }
  })

const pgliteSources = (pglite: PGliteDatabase, timeoutMs: number): Sources => {
  const shared = new PGliteSource(pglite, timeoutMs)
  return {
    shared,
    heartbeats: shared,
    callers: undefined,
    sharedMax: 1,
    listeningClient: () => {
      throw new TypeError("nobody else notifies PGlite")
    },
  }
}

const sourcesOf = (connections: ConnectionOptions, options: PostgresOptions) => {
  const { pglite, pool } = options
  if (pglite !== undefined) return Effect.sync(() => pgliteSources(pglite, connections.connectTimeoutMs))
  return pool === undefined ? ownSources(connections) : hostSources(pool, options)
}

/** Connects until the scope closes, without checking the schema. */
export const connect = (options: PostgresOptions): Effect.Effect<OpenDatabase, never, Scope.Scope> =>
  Effect.gen(function* () {
    const connections = connectionOptions(options)
    const { callers, heartbeats, listeningClient, shared, sharedMax } = yield* sourcesOf(connections, options)
    const timing = {
      retryForMs: options.retryForMs ?? 5_000,
      reconnectForMs: options.reconnectForMs ?? 1_000,
      contenders: Math.max(1, Math.floor(sharedMax / 3)),
      // All statements of a step together. A step that takes longer hangs and is cut.
      tryForMs: 2 * connections.statementTimeoutMs,
      wire: {
        schema: connections.schema,
        prepared: connections.prepared,
        lockTimeoutMs: connections.lockTimeoutMs,
      },
      begin: beginStatement(connections),
      beginBrief: beginBriefStatement(connections),
      ownSessions: connections.ownSessions,
    }
    yield* measurePool(shared, "shared", sharedMax)
    yield* measurePool(heartbeats, "heartbeats", 1)
    const database = new Database(shared, timing)
    return {
      connections,
      database,
      heartbeats: new Database(heartbeats, { ...timing, tryForMs: Math.min(timing.tryForMs, heartbeatLimitMs) }),
      callers: callers === undefined ? database : new Database(callers, timing),
      listeningClient,
    }
  })

/** Connects and brings the schema up to date. */
export const openDatabase = (options: PostgresOptions): Effect.Effect<OpenDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const open = yield* connect(options)
    yield* migrate(open.database, open.connections.schema, options.migrate ?? true)
    return open
  })

/** Migrations without opening the store. Opening applies them too, unless `migrate` is false. */
export const postgresMigrations = {
  /** Returns which migrations are applied and pending. Changes nothing. Without a schema, all are pending. */
  status: (options: PostgresOptions): Effect.Effect<MigrationStatus, StoreUnavailable> =>
    Effect.gen(function* () {
      const { connections, database } = yield* connect(options)
      return yield* database.read("migrationStatus", (session) => migrationStatus(session, connections.schema))
    }).pipe(Effect.scoped),
  /** Applies all pending migrations, or none if one fails. Returns their names, in order. */
  apply: (options: PostgresOptions): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
    Effect.gen(function* () {
      const { connections, database } = yield* connect(options)
      return yield* applyMigrations(database, connections.schema)
    }).pipe(Effect.scoped),
} as const
