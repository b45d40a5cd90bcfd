import type { Socket } from "node:net"
import type { ConnectionOptions as TlsOptions } from "node:tls"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import pg from "pg"
import * as Metric from "effect/Metric"
import { NoConnection } from "./postgresErrors.ts"
import { type SessionCheck, sessionPath, verifierOf } from "./sessionChecks.ts"
import { briefLockTimeoutMs, type ConnectionSource, type Wire } from "./Session.ts"

/** Milliseconds for which a connection keeps plans. */
const keptMs = 10_000

/** When the plans of a connection were made. */
const madeAt = new WeakMap<pg.ClientBase, number>()

/**
 * Lets the server plan the statements of a connection anew, once in ten seconds, ahead of the next one. A session keeps the plans of prepared
 * statements and of functions until a table is vacuumed or analyzed. A plan that was made while a table had a few rows reads all of it, which is right
 * then and takes 25 ms when it has 100,000. Planning everything that a busy connection sends takes 10 ms. It is sent without waiting for
 * its answer.
 */
const renewPlans = (client: pg.ClientBase): void => {
  const now = performance.now()
  const at = madeAt.get(client)
  if (at !== undefined && now - at < keptMs) return
  madeAt.set(client, now)
  // If it fails, so does what is sent after it.
  if (at !== undefined) client.query("DISCARD PLANS").catch(() => undefined)
}

/** A password, or a function that returns the one to use for a new connection. */
export type Password = string | (() => string | Promise<string>)

/** Whether connections are encrypted, or the options of Node's TLS. */
export type Ssl = boolean | TlsOptions

export interface ConnectionOptions extends Wire {
  readonly url: string
  /** Host, port and database. */
  readonly address: string
  readonly password: Password | undefined
  readonly ssl: Ssl | undefined
  readonly poolSize: number
  /** Milliseconds to wait for a connection. */
  readonly connectTimeoutMs: number
  /** Milliseconds one statement may take, on the server. */
  readonly statementTimeoutMs: number
  /** Whether each connection is a server session that keeps settings. */
  readonly ownSessions: boolean
}

/** The server's type number for arrays of bigint. */
const int8Array = 1016

const numbersOf = (text: string): unknown => JSON.parse(`[${text.slice(1, -1).replaceAll("NULL", "null")}]`)

const { BOOL, BYTEA, FLOAT8, INT2, INT4, INT8, JSON: json, JSONB, OID } = pg.types.builtins

/** Every stored bigint is a safe integer. */
const parsers = new Map<number, (text: string) => unknown>([
  [BOOL, (text) => text === "t"],
  [BYTEA, (text) => Buffer.from(text.slice("\\x".length), "hex")],
  ...[FLOAT8, INT2, INT4, INT8, OID].map((type): [number, (text: string) => number] => [type, Number]),
  [int8Array, numbersOf],
  [json, JSON.parse],
  [JSONB, JSON.parse],
])

/**
 * Reads the values of kiln's statements; those of other types are texts. The driver's own parsers belong to the whole process, so a
 * program may have replaced them (`pg.types.setTypeParser`).
 */
export const types: pg.CustomTypesConfig = { getTypeParser: (type) => parsers.get(type) ?? String }

/**
 * Settings that change the meaning of text sent to or from the server. A database or role may override them, but every
 * statement relies on these values. `array_nulls` matters most: without it, a NULL in an array is read as a word.
 */
const meanings = {
  array_nulls: "on",
  standard_conforming_strings: "on",
  transform_null_equals: "off",
  bytea_output: "hex",
  extra_float_digits: 1,
  datestyle: "ISO,MDY",
  intervalstyle: "postgres",
  timezone: "UTC",
  // Statements name the schema of everything that is not built in.
  search_path: sessionPath,
}

/**
 * Defaults for transactions and single statements, which must see everything committed before them. Read-only mode is left to
 * the server: operators and managed servers set `default_transaction_read_only` to stop writes, for example on a full disk.
 */
const transactionDefaults = {
  default_transaction_isolation: "read committed",
  default_transaction_deferrable: "off",
}

/** Formats settings as startup options (`-c name=value`). */
const asOptions = (settings: Readonly<Record<string, string | number>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${String(value).replaceAll(" ", "\\ ")}`)
    .join(" ")

const setLocal = (settings: Readonly<Record<string, string | number>>): ReadonlyArray<string> =>
  Object.entries(settings).map(([name, value]) => `SET LOCAL ${name}=${value}`)

const begin = "BEGIN ISOLATION LEVEL READ COMMITTED, NOT DEFERRABLE"

/** Begins a transaction on any connection, with the settings that statements rely on and the time limits of the session. */
export const beginAnywhere: string = [begin, ...setLocal(meanings)].join("; ")

/**
 * Server settings of every session, or of every transaction. The time limits end transactions of clients that hang, and waits
 * for them. The planner's settings are left to the database: the statements are written so that they look up what they need.
 */
const serverSettings = ({ lockTimeoutMs, statementTimeoutMs }: ConnectionOptions) => ({
  ...meanings,
  statement_timeout: statementTimeoutMs,
  lock_timeout: lockTimeoutMs,
  idle_in_transaction_session_timeout: statementTimeoutMs,
  synchronous_commit: "on",
})

/** Begins a transaction. Without own sessions, each transaction sets the settings itself. */
export const beginStatement = (options: ConnectionOptions): string =>
  [begin, ...(options.ownSessions ? [] : setLocal(serverSettings(options)))].join("; ")

/** The same with a short lock timeout. */
export const beginBriefStatement = (options: ConnectionOptions): string =>
  `${beginStatement(options)}; SET LOCAL lock_timeout = ${briefLockTimeoutMs(options)}`

/** Separates session settings from the URL: the driver would use them instead of ours. */
const withoutOptions = (text: string): { readonly url: string; readonly options: string } => {
  if (!URL.canParse(text)) return { url: text, options: "" }
  const url = new URL(text)
  const options = url.searchParams.get("options") ?? ""
  url.searchParams.delete("options")
  return { url: options === "" ? text : url.href, options }
}

/** The configuration of every connection. Settings of the URL come first, so that ours override them. */
export const clientConfig = (options: ConnectionOptions, name: string): pg.ClientConfig => ({
  connectionString: withoutOptions(options.url).url,
  application_name: name,
  connectionTimeoutMillis: options.connectTimeoutMs,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  types,
  // A copy: the driver changes it.
  ...(options.ssl !== undefined && { ssl: typeof options.ssl === "object" ? { ...options.ssl } : options.ssl }),
  ...(options.ownSessions
    ? {
        options: [
          withoutOptions(options.url).options,
          // An idle connection in the pool is not a hanging one.
          asOptions({ ...transactionDefaults, ...serverSettings(options), idle_session_timeout: 0 }),
        ]
          .join(" ")
          .trim(),
      }
    : {}),
})

/** Asks for the password of a new connection. Failures are those of a connection, so the step is retried. */
const askPassword = async (password: () => string | Promise<string>): Promise<string> => {
  let answer: unknown
  try {
    answer = await password()
  } catch (cause) {
    throw new NoConnection("the option password, a function, failed", { cause })
  }
  if (typeof answer === "string") return answer
  throw new NoConnection(`the option password, a function, must return a string, not ${typeof answer}`)
}

/**
 * The clients of a store, as a class for the driver's pool. Each reads the URL again, with the files that it names, and asks for the
 * password. Several statements are sent without waiting for answers.
 */
const clientClass = (options: ConnectionOptions, name: string) =>
  class StoreClient extends pg.Client {
    constructor() {
      super({ ...clientConfig(options, name), pipeline: true })
      const { password } = options
      if (password === undefined) return
      const ask = async (of: () => string | Promise<string>) => {
        try {
          return await askPassword(of)
        } catch (error) {
          // The driver reports the error and leaves the socket open, for as long as the server waits for a password.
          setImmediate(() => cutOff(this))
          throw error
        }
      }
      const value = typeof password === "function" ? () => ask(password) : password
      // The driver would replace one that is configured beside a URL by the URL's. Hidden, as the driver hides its own.
      Object.defineProperty(this, "password", { value, enumerable: false, writable: true })
    }
  }

/** A connection that receives notifications. Waiting for them does not keep the process alive. */
export interface ListeningClient {
  /** The id of the server process. */
  readonly processID?: number | null | undefined
  connect(): Promise<unknown>
  query(text: string): Promise<unknown>
  /** One connection may emit several errors, and then its end. */
  onLost(handler: () => void): void
  onNotification(handler: (message: Notification) => void): void
  cutOff(): void
}

/** A notification as the driver has it. */
export interface Notification {
  readonly channel: string
  readonly payload?: string | undefined
}

/** A connection of its own. Not connected. */
export const newListeningClient = (options: ConnectionOptions): ListeningClient => {
  const client: pg.Client & { readonly processID?: number | null } = newClient(options, "kiln wake-up")
  return {
    get processID() {
      return client.processID
    },
    connect: async () => {
      await client.connect()
      ;(client.connection.stream as Socket).unref()
    },
    query: (text) => client.query(text),
    onLost: (handler) => void client.on("error", handler).on("end", handler),
    onNotification: (handler) => void client.on("notification", handler),
    cutOff: () => cutOff(client),
  }
}

/** Not connected. */
export const newClient = (options: ConnectionOptions, name: string): pg.Client => new (clientClass(options, name))()

/** Closes the socket without a goodbye. Pending queries fail immediately. */
export const cutOff = (client: Pick<pg.Client, "connection">): void => {
  client.connection.stream.destroy()
}

/** The connections of a pool of kiln's own. */
const sourceOf = (
  pool: pg.Pool,
  { ownSessions }: Pick<ConnectionOptions, "ownSessions">,
): ConnectionSource & CountedPool => ({
  get totalCount() {
    return pool.totalCount
  },
  get idleCount() {
    return pool.idleCount
  },
  get waitingCount() {
    return pool.waitingCount
  },
  connect: async () => {
    const client = await pool.connect()
    // Behind a pooler, the next statement may go to another session.
    if (ownSessions) renewPlans(client)
    return {
      query: (config) => client.query(config),
      command: (text, values) => client.query(text, values),
      release: (cut) => client.release(cut),
      cutOff: () => cutOff(client),
    }
  },
})

/** Connection errors are also emitted as events, and an unhandled one would end the process. */
const heard = (): void => undefined

/** Milliseconds to wait for the server to close connections at shutdown. */
const goodbyeMs = 1_000

/** Opens a pool of up to `max` connections, each checked by `verify`. Closing the scope waits for operations in progress. */
export const makePool = (
  options: ConnectionOptions,
  name: string,
  max: number,
  verify: SessionCheck,
): Effect.Effect<ConnectionSource & CountedPool, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => openPool(options, name, max, verify)),
      ({ open, pool }) =>
        Effect.promise(async () => {
          await pool.end()
          // An unreachable server never closes them, and must not keep the process alive.
          if (open.size > 0) setTimeout(() => open.forEach(cutOff), goodbyeMs).unref()
        }),
    ),
    ({ pool }) => sourceOf(pool, options),
  )

const openPool = (options: ConnectionOptions, name: string, max: number, verify: SessionCheck) => {
  const pool = new pg.Pool({
    Client: clientClass(options, name),
    connectionTimeoutMillis: options.connectTimeoutMs,
    max,
    idleTimeoutMillis: 60_000,
    // Connections that nobody uses do not keep the process alive. An engine with a worker does that itself.
    allowExitOnIdle: true,
    // Behind a pooler, a connection does not stay with one server session.
    ...(options.ownSessions && { verify: verifierOf(verify) }),
  })
  const open = new Set<pg.PoolClient>()
  pool.on("error", heard)
  pool.on("connect", (client) => {
    client.on("error", heard)
    client.on("end", () => open.delete(client))
    open.add(client)
  })
  return { pool, open }
}

const inUse = Metric.gauge("kiln_database_pool_connections_in_use", {
  description: "Connections of the pool that run a statement or a transaction",
})
const idle = Metric.gauge("kiln_database_pool_connections_idle", {
  description: "Open connections of the pool that nothing uses",
})
const most = Metric.gauge("kiln_database_pool_connections_limit", { description: "Maximum connections of the pool" })
const waiting = Metric.gauge("kiln_database_pool_requests_waiting", {
  description: "Steps that wait for a connection because all are in use",
})

/** A pool that counts its connections. */
export interface CountedPool {
  readonly totalCount: number
  readonly idleCount: number
  readonly waitingCount: number
}

/** Registers gauges of a pool until the scope closes. They are read when metrics are, and cost nothing before. */
export const measurePool = (pool: CountedPool, name: string, max: number): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(Effect.context(), (context) => {
    const register = (gauge: typeof inUse, read: () => number) =>
      Metric.registerUnsafe(Metric.withAttributes(gauge, { pool: name }), context, {
        get: () => ({ value: read() }),
        update: () => undefined,
        modify: () => undefined,
      })
    return Effect.asVoid(
      Effect.acquireRelease(
        Effect.sync(() => [
          register(inUse, () => pool.totalCount - pool.idleCount),
          register(idle, () => pool.idleCount),
          register(most, () => max),
          register(waiting, () => pool.waitingCount),
        ]),
        (registered) =>
          Effect.sync(() => {
            for (const { remove } of registered) remove()
          }),
      ),
    )
  })
