import { CompiledQuery } from "kysely"
import type { Connection } from "../Session.ts"

/**
 * A client of the driver `pg` (`Client`, `PoolClient`) on which the caller has begun a transaction. Only what kiln needs, so that
 * any version fits.
 */
export interface PgClient {
  query(text: string, values: Array<unknown>): Promise<{ readonly rows: ReadonlyArray<unknown> }>
}

/** A Kysely transaction on a Postgres driver. */
export interface KyselyTransaction {
  readonly isTransaction: true
  executeQuery(query: never): Promise<{ readonly rows: ReadonlyArray<unknown> }>
}

type Send = (text: string, values: ReadonlyArray<unknown>) => Promise<{ readonly rows: ReadonlyArray<unknown> }>

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const isKysely = (
  handle: Readonly<Record<string, unknown>>,
): handle is { isTransaction: unknown; executeQuery: (query: CompiledQuery) => ReturnType<Send> } =>
  typeof handle["executeQuery"] === "function"

const isClient = (handle: Readonly<Record<string, unknown>>): handle is { query: Send } =>
  typeof handle["query"] === "function"

const notAHandle = "expected a pg client or a Kysely transaction"

/** Returns how statements are sent on a caller's handle. Throws `TypeError` for anything else. */
const senderOf = (handle: Readonly<Record<string, unknown>>): Send => {
  if (isKysely(handle)) {
    if (handle.isTransaction !== true) throw new TypeError("this Kysely instance is not a transaction")
    return (text, values) => handle.executeQuery(CompiledQuery.raw(text, [...values]))
  }
  if (isClient(handle)) return (text, values) => handle.query(text, [...values])
  throw new TypeError(notAHandle)
}

/**
 * A caller's connection. Its type parsers are unknown, so rows are read as one JSON text with plain numbers. It may accept only
 * one statement at a time.
 */
export class CallerConnection implements Connection {
  readonly handle: object
  readonly #send: Send
  #last: Promise<unknown> = Promise.resolve()

  /** Throws `TypeError` for an unknown handle. */
  constructor(handle: unknown) {
    if (!isObject(handle)) throw new TypeError(notAHandle)
    this.handle = handle
    this.#send = senderOf(handle)
  }

  /** Runs a command without a result. */
  async command(text: string): Promise<void> {
    await this.#serialized(text, [])
  }

  async query({ answer, text, values }: Parameters<Connection["query"]>[0]) {
    if (answer === "count") return { rows: [], rowCount: Number(await this.#serialized(asCount(text), values)) }
    const rows = JSON.parse(await this.#serialized(asJson(text), values)) as ReadonlyArray<unknown>
    return { rows, rowCount: rows.length }
  }

  async #serialized(text: string, values: ReadonlyArray<unknown>): Promise<string> {
    const sent = this.#last.then(() => this.#send(text, values))
    this.#last = sent.catch(() => undefined)
    const [row] = (await sent).rows
    return isObject(row) && typeof row["answer"] === "string" ? row["answer"] : ""
  }
}

// Works for statements that read and for those that write and return.
const asJson = (text: string): string =>
  `with part as (${text}) select coalesce(json_agg(part), '[]')::text as answer from part`

const asCount = (text: string): string =>
  `with written as (${text} returning 1) select count(*)::text as answer from written`
