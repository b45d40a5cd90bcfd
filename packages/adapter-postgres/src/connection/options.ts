import pg from "pg"
import { type OptionNames, requireFlag, requireNumber, requireOneOf, requireOptions } from "@kiln/core/domain"
import type { ConnectionOptions, Password, Ssl } from "./pool.ts"
import type { PgPool } from "./hostPool.ts"
import type { PGliteDatabase } from "./pglite.ts"

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
export const keptOfPool = 2

export const listens = ({ notifications = true, pooler }: PostgresOptions): boolean =>
  notifications === true && pooler !== "transaction"

/** The most connections of the pool that kiln may use at once. Some pools do not tell their own limit. */
export const mostOfPool = ({ pool, poolSize = 10 }: PostgresOptions): number => {
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

export const defaultConnectMs = 3_000

const schemes = "postgres://, postgresql:// or socket:"
const escapes = 'percent-encode "@", ":", "/", "#", "?" and "%" in the user and the password (encodeURIComponent)'

/** Throws `TypeError`. No message repeats a part of the URL in which a password may be. */
const broken = (problem: string): never => {
  throw new TypeError(`invalid url: ${problem}`)
}

/** The client of the driver for a URL, not connected. The driver decodes the URL and reads the files that it names. */
const clientOf = (url: string): pg.Client => {
  try {
    return new pg.Client({ connectionString: url })
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined
    const path = error instanceof Error && "path" in error ? error.path : undefined
    return typeof path === "string"
      ? broken(`cannot read the file ${path} that a parameter names (${String(code)})`)
      : broken(`it cannot be parsed; ${escapes}`)
  }
}

/** The name of a service file's section, where the connection would come from one. */
const serviceOf = (url: string, isHostNamed: boolean): string | undefined => {
  const [, parameters = ""] = url.split("?", 2)
  const named = new URLSearchParams(parameters).get("service")
  if (named !== null) return `the parameter service=${named}`
  // oxlint-disable-next-line node/no-process-env -- the driver reads PGHOST, but ignores PGSERVICE
  const { PGHOST, PGSERVICE } = process.env
  return PGSERVICE === undefined || isHostNamed || PGHOST !== undefined ? undefined : "PGSERVICE"
}

const isSocket = (url: string): boolean => url.startsWith("/") || url.startsWith("socket:")

/** The part between `//` and the path: users, hosts and ports. */
const authorityOf = (url: string): string => /^[a-z]+:\/\/([^/?#]*)/.exec(url)?.[1] ?? ""

/**
 * Checks the URL of a server and returns host, port and database, without user, password and parameters. Throws `TypeError` with a
 * message that does not contain it.
 */
const requireUrl = (url: string): string => {
  const isUrl = /^(postgres(ql)?:\/\/|socket:)/.test(url)
  if (!isUrl && !url.startsWith("/"))
    broken(`it must begin with ${schemes}, for example postgres://user:password@host:5432/database`)
  if (!url.startsWith("/") && /[#\s]/.test(url)) broken(`it contains a # or a space; ${escapes}`)
  const authority = authorityOf(url)
  const hosts = authority.slice(authority.lastIndexOf("@") + 1)
  if (hosts.includes(",")) broken("it names several hosts, which the driver does not support; name one")
  const client = clientOf(url)
  // A slash in the password ends the host.
  if (/[@/]/.test(client.database ?? "")) broken(`the name of the database contains @ or /; ${escapes}`)
  const service = serviceOf(url, isSocket(url) || hosts !== "" || /[?&]host=/.test(url))
  if (service !== undefined)
    broken(
      `${service} names a section of a service file, which the driver does not read; write host, user and database`,
    )
  const { host, pathname } = URL.canParse(url) && !isSocket(url) ? new URL(url) : unparsed(client)
  return `${host}${pathname}`
}

const unparsed = ({ database = "", host }: pg.Client) => ({ host, pathname: `/${database}` })

const hasPassword = (url: string): boolean => /^[a-z]+:\/\/[^/?#@]*:[^/?#@]+@|[?&]password=/.test(url)

/** Whether the URL says how to encrypt. */
const hasSsl = (url: string): boolean => /[?&]ssl(mode|rootcert|cert|key|negotiation)?=/.test(url)

/** Host, port and database of a pool of the driver. */
const addressOfPool = ({ options = {} }: { readonly options?: object }): string => {
  const { database = "", host, port } = new pg.Client({ ...options })
  return `${host}:${port}/${database}`
}
