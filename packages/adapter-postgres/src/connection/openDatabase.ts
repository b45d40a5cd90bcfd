import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { MigrationStatus } from "@kiln/core/ports"
import {
  beginBriefStatement,
  beginStatement,
  type ConnectionOptions,
  type CountedPool,
  type ListeningClient,
  makePool,
  measurePool,
  newListeningClient,
  types,
} from "./pool.ts"
import {
  connectionOptions,
  defaultConnectMs,
  keptOfPool,
  listens,
  mostOfPool,
  type PostgresOptions,
} from "./options.ts"
import { HostListeningClient, HostPool, HostSource, type PgPool } from "./hostPool.ts"
import { type PGliteDatabase, PGliteSource } from "./pglite.ts"
import type { ConnectionSource } from "./Session.ts"
import { Database } from "./Database.ts"
import { makeSameDatabase } from "./sessionChecks.ts"
import { applyMigrations, migrate, migrationStatus } from "../migrations/migrate.ts"

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
