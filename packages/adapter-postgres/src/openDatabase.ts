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
import { beginBriefStatement, beginStatement, type ConnectionOptions, makePool } from "./Connections.ts"
import { Database } from "./Database.ts"
import { applyMigrations, migrate, migrationStatus } from "./migrate.ts"

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with the driver's options behind it, `?sslmode=verify-full` among them. */
  readonly url: string
  /** The schema that holds everything, made where it does not exist. Default `kiln`: a plain lower-case name. */
  readonly schema?: string | undefined
  /** Connections of this process at most, default 10, at least 2: one of them is for heartbeats alone. The one that listens comes on top. */
  readonly poolSize?: number | undefined
  /**
   * Whether processes wake each other by LISTEN and NOTIFY, default true. Turn it off where the database does not know
   * them (CockroachDB, YugabyteDB): processes then poll every second, as with SQLite. `send` is for a program that asks a
   * few things and ends: it tells others, and hears nobody. Turn it off in all processes or in none: workers that listen rely on
   * being told, look by themselves only every half minute, and find what a process without notifications adds as late as that.
   */
  readonly notifications?: boolean | "send" | undefined
  /**
   * What stands between this process and the server, default `none`. Behind a pooler in transaction mode (pgbouncer) every
   * transaction may meet another server session: no prepared statements, no session settings, no LISTEN. NOTIFY works, so
   * `notifications` are then `send`, unless they are turned off.
   */
  readonly pooler?: "none" | "transaction" | undefined
  /** Whether missing migrations are applied when it opens, default true. Otherwise they make it fail. */
  readonly migrate?: boolean | undefined
  /** Milliseconds a connection may take to come about, default 3,000. */
  readonly connectTimeoutMs?: number | undefined
  /** Milliseconds one statement may take, default 10,000. */
  readonly statementTimeoutMs?: number | undefined
  /** Milliseconds a statement waits for a lock, default 3,000. */
  readonly lockTimeoutMs?: number | undefined
  /**
   * Milliseconds between two notes of how far the line of projects has moved, default 1,000; 0 notes it with every claim. In
   * between a process goes by what it served itself.
   */
  readonly noteLanesEveryMs?: number | undefined
  /** Milliseconds for which a step that conflicts with others is tried again, default 5,000. */
  readonly retryForMs?: number | undefined
  /** Milliseconds for which a server out of reach is asked again before a verb fails with `StoreUnavailable`, default 1,000. */
  readonly reconnectForMs?: number | undefined
}

const optionNames: OptionNames<PostgresOptions> = {
  url: true,
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

/** Throws `TypeError` for options that do not exist or mean nothing. */
export const checkPostgresOptions = (options: PostgresOptions): void => {
  requireOptions("postgresStore()", options, optionNames)
  const { migrate: migrates, notifications = true, pooler = "none", poolSize = 10, url } = options
  if (typeof url !== "string" || url === "") throw new TypeError("postgresStore() needs the url of its database")
  for (const name of times) requireNumber(name, options[name] ?? 0, { least: 0, most: longestMs })
  requireNumber("poolSize", poolSize, { least: 1, most: 10_000, whole: true })
  requireOneOf("pooler", pooler, ["none", "transaction"])
  if (notifications !== "send") requireFlag("notifications", notifications)
  requireFlag("migrate", migrates)
}

/** Quoted nowhere else: it goes into statements, channel names and session settings as it is. */
const plainName = /^[a-z_][a-z0-9_]{0,50}$/

export const connectionOptions = (options: PostgresOptions): ConnectionOptions => {
  const { pooler = "none", schema = "kiln" } = options
  if (!plainName.test(schema))
    throw new TypeError(`schema must be a lower-case name of letters, digits and underscores: ${schema}`)
  return {
    url: options.url,
    schema,
    poolSize: Math.max(2, options.poolSize ?? 10),
    connectTimeoutMs: options.connectTimeoutMs ?? 3_000,
    statementTimeoutMs: options.statementTimeoutMs ?? 10_000,
    lockTimeoutMs: options.lockTimeoutMs ?? 3_000,
    prepared: pooler === "none",
    ownSessions: pooler === "none",
  }
}

/** Longest time for one heartbeat: an answer that is later than that comes late for the leases, and the next beat needs the connection. */
const heartbeatLimitMs = 5_000

/** What the stores of one process work with. */
export interface OpenDatabase {
  readonly connections: ConnectionOptions
  readonly database: Database
  /** On connections of their own. */
  readonly heartbeats: Database
}

/** Connects for the life of the scope, whatever state the schema is in. */
export const connect = (options: PostgresOptions): Effect.Effect<OpenDatabase, never, Scope.Scope> =>
  Effect.gen(function* () {
    const connections = connectionOptions(options)
    const timing = {
      retryForMs: options.retryForMs ?? 5_000,
      reconnectForMs: options.reconnectForMs ?? 1_000,
      contenders: Math.max(1, Math.floor((connections.poolSize - 1) / 3)),
      // All statements of a step together. Whatever takes longer hangs, and is cut off.
      tryForMs: 2 * connections.statementTimeoutMs,
      wire: {
        schema: connections.schema,
        prepared: connections.prepared,
        lockTimeoutMs: connections.lockTimeoutMs,
      },
      begin: beginStatement(connections),
      beginBrief: beginBriefStatement(connections),
    }
    const shared = yield* makePool(connections, "kiln", connections.poolSize - 1)
    const reserved = yield* makePool(connections, "kiln heartbeats", 1)
    return {
      connections,
      database: new Database(shared, timing),
      heartbeats: new Database(reserved, { ...timing, tryForMs: Math.min(timing.tryForMs, heartbeatLimitMs) }),
    }
  })

/** The same, with the schema brought up to date. */
export const openDatabase = (options: PostgresOptions): Effect.Effect<OpenDatabase, StoreUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const open = yield* connect(options)
    yield* migrate(open.database, open.connections.schema, options.migrate ?? true)
    return open
  })

/** Migrations apart from opening the store, which brings its schema up to date by itself unless it is told not to. */
export const postgresMigrations = {
  /** How far the schema is. Changes nothing; where there is no schema yet, everything is pending. */
  status: (options: PostgresOptions): Effect.Effect<MigrationStatus, StoreUnavailable> =>
    Effect.gen(function* () {
      const { connections, database } = yield* connect(options)
      return yield* database.read("migrationStatus", (session) => migrationStatus(session, connections.schema))
    }).pipe(Effect.scoped),
  /** Applies what is pending, all of it or nothing. Answers with the names, in order. */
  apply: (options: PostgresOptions): Effect.Effect<ReadonlyArray<string>, StoreUnavailable> =>
    Effect.gen(function* () {
      const { connections, database } = yield* connect(options)
      return yield* applyMigrations(database, connections.schema)
    }).pipe(Effect.scoped),
} as const
