import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import pg from "pg"
import { briefLockTimeoutMs, type Wire } from "./Session.ts"

export interface ConnectionOptions extends Wire {
  readonly url: string
  readonly poolSize: number
  /** Milliseconds a connection may take to come about. */
  readonly connectTimeoutMs: number
  /** Milliseconds one statement may take, on the server. */
  readonly statementTimeoutMs: number
  /** Whether every connection is a server session of its own, which settings can be given to. */
  readonly ownSessions: boolean
}

/** The number by which the server names its type bigint. */
const int8 = pg.types.builtins.INT8

/** A whole number of the server's is one of ours: every one that is stored is a safe integer. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    oid === int8 ? Number : (pg.types.getTypeParser(oid, format) as (value: string) => unknown),
}

/**
 * Settings that decide what a text means, on its way to the server or back. A database or a role may have any of them
 * otherwise, and every statement is written for these. `array_nulls` matters most: without it a NULL in an array, as batches
 * have them, is a word.
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
  // Schemas are named wherever something is not the server's own.
  search_path: "pg_catalog",
}

/**
 * What a transaction is where nothing says so, and a statement by itself: one that must see what was committed before it. Whether
 * it may write is left to the server: operators and managed servers use `default_transaction_read_only` to stop writes, for
 * example when the disk is full.
 */
const transactionDefaults = {
  default_transaction_isolation: "read committed",
  default_transaction_deferrable: "off",
}

/** One `-c` for each, as the server reads them when a session begins. */
const asOptions = (settings: Readonly<Record<string, string | number>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${String(value).replaceAll(" ", "\\ ")}`)
    .join(" ")

/** The settings of a transaction, in it. */
const setLocal = (settings: Readonly<Record<string, string | number>>): ReadonlyArray<string> =>
  Object.entries(settings).map(([name, value]) => `SET LOCAL ${name}=${value}`)

const begin = "BEGIN ISOLATION LEVEL READ COMMITTED, NOT DEFERRABLE"

/** Begins a transaction on any connection, in which statements mean what they say. It has the limits of its session. */
export const beginAnywhere: string = [begin, ...setLocal(meanings)].join("; ")

/**
 * Server settings of every session, or of every transaction. The limits make sure that a client that hangs in a
 * transaction, or waits for one that does, lets go. Every statement is written for an index, and every join for one look into it a row: a plan made while a
 * table was small must not stay with reading all of it when it has grown.
 */
const serverSettings = ({ lockTimeoutMs, statementTimeoutMs }: ConnectionOptions) => ({
  ...meanings,
  statement_timeout: statementTimeoutMs,
  lock_timeout: lockTimeoutMs,
  idle_in_transaction_session_timeout: statementTimeoutMs,
  synchronous_commit: "on",
  enable_indexscan: "on",
  enable_indexonlyscan: "on",
  enable_nestloop: "on",
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  enable_material: "off",
  plan_cache_mode: "force_generic_plan",
  jit: "off",
})

/** Begins a transaction. Where sessions are not this process's own, each transaction brings the settings with it. */
export const beginStatement = (options: ConnectionOptions): string =>
  [begin, ...(options.ownSessions ? [] : setLocal(serverSettings(options)))].join("; ")

/** The same for a transaction that waits only briefly. */
export const beginBriefStatement = (options: ConnectionOptions): string =>
  `${beginStatement(options)}; SET LOCAL lock_timeout = ${briefLockTimeoutMs(options)}`

/** The URL without the session settings that it may bring: the driver would take them in place of ours, not beside them. */
const withoutOptions = (text: string): { readonly url: string; readonly options: string } => {
  if (!URL.canParse(text)) return { url: text, options: "" }
  const url = new URL(text)
  const options = url.searchParams.get("options") ?? ""
  url.searchParams.delete("options")
  return { url: options === "" ? text : url.href, options }
}

/** What every connection is made with. Settings of the URL come first, so that those a promise depends on are ours. */
export const clientConfig = (options: ConnectionOptions, name: string): pg.ClientConfig => ({
  connectionString: withoutOptions(options.url).url,
  application_name: name,
  connectionTimeoutMillis: options.connectTimeoutMs,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  types,
  ...(options.ownSessions
    ? {
        options: [
          withoutOptions(options.url).options,
          // An idle connection of the pool is not one that hangs.
          asOptions({ ...transactionDefaults, ...serverSettings(options), idle_session_timeout: 0 }),
        ]
          .join(" ")
          .trim(),
      }
    : {}),
})

/** Nothing is waited for, and nothing said: its pending queries fail at once. */
export const cutOff = (client: Pick<pg.Client, "connection">): void => {
  client.connection.stream.destroy()
}

/** An error on an idle or checked-out connection comes as an event as well, and unheard it would end the process. */
const heard = (): void => undefined

/** Milliseconds a server may take to hang up when it was told goodbye. */
const goodbyeMs = 1_000

/** Up to `max` connections, made when they are wanted, and gone with the scope once whatever is under way has ended. */
export const makePool = (
  options: ConnectionOptions,
  name: string,
  max: number,
): Effect.Effect<pg.Pool, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => openPool(options, name, max)),
      ({ open, pool }) =>
        Effect.promise(async () => {
          await pool.end()
          // A server out of reach never hangs up, and must not keep this process from ending.
          if (open.size > 0) setTimeout(() => open.forEach(cutOff), goodbyeMs).unref()
        }),
    ),
    ({ pool }) => pool,
  )

const openPool = (options: ConnectionOptions, name: string, max: number) => {
  const pool = new pg.Pool({
    ...clientConfig(options, name),
    // Several statements of one transaction travel together.
    pipeline: true,
    max,
    idleTimeoutMillis: 60_000,
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
