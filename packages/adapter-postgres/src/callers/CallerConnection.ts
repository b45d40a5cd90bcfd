import * as Effect from "effect/Effect"
import { CompiledQuery } from "kysely"
import pg from "pg"
import { StoreUnavailable } from "@kiln/core/domain"
import { arrayText, type SqlValue } from "../Statement.ts"
import type { Database } from "../connection/Database.ts"
import { type Connection, Session, Transaction, type Wire } from "../connection/Session.ts"
import { meaningOf, sqlState } from "../connection/postgresErrors.ts"
import { readTime } from "../transactionsOf.ts"

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

/** Rows alone, or in the field `rows`, as drivers return them. */
type Rows = ReadonlyArray<unknown> | { readonly rows: ReadonlyArray<unknown> }

/**
 * One statement in the caller's transaction, for any driver or query builder: postgres.js, Drizzle, Knex, Prisma and others.
 *
 * `text` is SQL with the placeholders `$1`, `$2` and so on, which may occur more than once and never inside quotes. It contains no
 * question marks. `values` are strings or `null`; pass them on unchanged and without types. Return the rows as objects by column
 * name, and let errors of the server through, as themselves or as a `cause`.
 *
 * ```ts
 * await sql.begin(async (tx) => {
 *   await engine.submit("digest", request, { transaction: { query: (text, values) => tx.unsafe(text, values) } })
 * })
 * ```
 */
export interface QueryTransaction {
  query(text: string, values: Array<string | null>): PromiseLike<Rows>
}

type Send = (text: string, values: ReadonlyArray<unknown>) => PromiseLike<Rows>

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

interface KyselyHandle {
  readonly isTransaction: unknown
  readonly executeQuery: (query: CompiledQuery) => ReturnType<Send>
  readonly withoutPlugins?: () => Pick<KyselyHandle, "executeQuery">
}

const isKysely = (handle: object): handle is KyselyHandle =>
  "executeQuery" in handle && typeof handle.executeQuery === "function"

const isClient = (handle: Readonly<Record<string, unknown>>): handle is { query: Send } =>
  typeof handle["query"] === "function"

const notAHandle = "expected a pg client, a Kysely transaction or an object with query(text, values)"

/** Returns how statements are sent on a caller's handle. Throws `TypeError` for anything else. */
const senderOf = (handle: Readonly<Record<string, unknown>>): Send => {
  if (isKysely(handle)) {
    if (handle.isTransaction !== true) throw new TypeError("this Kysely instance is not a transaction")
    // Plugins might rename columns, or parse texts that are JSON.
    const plain = handle.withoutPlugins?.() ?? handle
    return (text, values) => plain.executeQuery(CompiledQuery.raw(text, [...values]))
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

  /** Runs a statement that returns one row with one text named `answer`. */
  answer(text: string, values: ReadonlyArray<string | null>): Promise<string> {
    return this.#serialized(text, values)
  }

  async query({ answer, text, values }: Parameters<Connection["query"]>[0]) {
    const [plain, texts] = [withTexts(text), values.map(asText)]
    if (answer === "count") return { rows: [], rowCount: Number(await this.#serialized(asCount(plain), texts)) }
    const rows = JSON.parse(await this.#serialized(asJson(plain), texts)) as ReadonlyArray<unknown>
    return { rows, rowCount: rows.length }
  }

  async #serialized(text: string, values: ReadonlyArray<unknown>): Promise<string> {
    const sent = this.#last.then(() => this.#send(text, values))
    this.#last = sent.catch(() => undefined)
    const result = await sent.catch((error: unknown) => {
      throw serverErrorIn(error) ?? error
    })
    const [row] = "rows" in result ? result.rows : result
    return isObject(row) && typeof row["answer"] === "string" ? row["answer"] : ""
  }
}

// Works for statements that read and for those that write and return.
const asJson = (text: string): string =>
  `with part as (${text}) select coalesce(json_agg(part), '[]')::text as answer from part`

const asCount = (text: string): string =>
  `with written as (${text} returning 1) select count(*)::text as answer from written`

/**
 * Casts each placeholder with a type to text first. Some drivers ask the server for the types and encode values by them: postgres.js
 * would encode a JSON text once more.
 */
const withTexts = (text: string): string => text.replaceAll(/(\$\d+)::/g, "$1::text::")

const asText = (value: SqlValue): unknown => {
  if (value === null || typeof value === "string" || value instanceof Uint8Array) return value
  if (typeof value !== "object") return String(value)
  return arrayText(
    value.map((item) => ({ item })),
    "item",
  )
}

/** Maximum number of errors around the server's own. */
const deepestCause = 5

/**
 * Returns the server's error inside the errors that a library wraps around it; `undefined` if no server reported it. Drizzle has it as `cause`,
 * Prisma only its code and message as `meta.driverAdapterError.cause`.
 */
const serverErrorIn = (error: unknown): unknown => {
  for (let inner = error, depth = 0; isObject(inner) && depth < deepestCause; depth++) {
    if (sqlState(inner) !== undefined) return inner
    const { cause, meta, originalCode, originalMessage } = inner
    if (typeof originalCode === "string")
      return Object.assign(new Error(String(originalMessage), { cause: error }), {
        severity: "ERROR",
        code: originalCode,
      })
    inner = isObject(meta) ? meta["driverAdapterError"] : cause
  }
  return undefined
}

/** The steps that a submission in a caller's transaction takes. */
export type Steps = Pick<Database, "read" | "write" | "writeIf">

/**
 * Runs the steps in the caller's own transaction, for databases with one connection, on which others would wait for the caller. What they
 * write is undone with the transaction, and nobody could have seen it.
 */
export const insideTransaction = (connection: CallerConnection, given: Wire): Steps => {
  const wire = { ...given, prepared: false }
  const run = <A>(operation: string, work: (session: Session) => Promise<A>): Effect.Effect<A, StoreUnavailable> =>
    Effect.tryPromise({ try: () => work(new Session(connection, wire)), catch: (error) => error }).pipe(
      Effect.catch((cause) =>
        meaningOf(cause) === "defect" ? Effect.die(cause) : Effect.fail(new StoreUnavailable({ operation, cause })),
      ),
    )
  const write: Steps["write"] = (operation, work) =>
    run(operation, async (session) => {
      const tx = new Transaction(connection, wire, await readTime(session))
      const value = await work(tx)
      await tx.lastAnswers()
      return value
    })
  return {
    read: run,
    write,
    writeIf: (operation, look, work, nothing) =>
      Effect.flatMap(run(operation, look), (any) => (any ? write(operation, work) : Effect.succeed(nothing))),
  }
}

/** A transaction of postgres.js: the argument of the function that `sql.begin` calls, or a reserved connection. */
export interface PostgresJsTransaction {
  unsafe(text: string, values: Array<string | null>): PromiseLike<ReadonlyArray<unknown>>
}

/** An interactive transaction of Prisma. */
export interface PrismaTransaction {
  $queryRawUnsafe(text: string, ...values: Array<string | null>): PromiseLike<unknown>
}

/** A transaction of Drizzle on any driver for Postgres. */
export interface DrizzleTransaction {
  execute(text: string): PromiseLike<ReadonlyArray<unknown> | { readonly rows: ReadonlyArray<unknown> }>
  /** Only transactions have it. */
  rollback(): never
}

/** A transaction of Knex on the driver `pg`. */
export interface KnexTransaction {
  readonly isTransaction?: boolean
  raw(text: string, bindings: Array<string | null>): PromiseLike<unknown>
}

const placeholder = /\$(\d+)/g

const has = (handle: unknown, name: string): boolean =>
  handle !== null && handle !== undefined && typeof Reflect.get(Object(handle), name) === "function"

const requireTransaction = (isTransaction: boolean, problem: string): void => {
  if (!isTransaction) throw new TypeError(problem)
}

const rowsIn = (answer: unknown): ReadonlyArray<unknown> => {
  if (Array.isArray(answer)) return answer
  const rows: unknown = typeof answer === "object" && answer !== null && "rows" in answer ? answer.rows : undefined
  return Array.isArray(rows) ? rows : []
}

/**
 * Returns the handle of a transaction of postgres.js for `submit`. Throws `TypeError` for `sql` itself.
 *
 * ```ts
 * await sql.begin(async (tx) => {
 *   await engine.submit("digest", request, { transaction: fromPostgresJs(tx) })
 * })
 * ```
 */
export const fromPostgresJs = (tx: PostgresJsTransaction): QueryTransaction => {
  requireTransaction(
    has(tx, "unsafe") && (has(tx, "savepoint") || has(tx, "release")),
    "fromPostgresJs() takes the transaction that sql.begin passes to its function, not sql",
  )
  return { query: (text, values) => tx.unsafe(text, values) }
}

/** Returns the handle of an interactive transaction of Prisma for `submit`. Throws `TypeError` for the client itself. */
export const fromPrisma = (tx: PrismaTransaction): QueryTransaction => {
  requireTransaction(
    has(tx, "$queryRawUnsafe") && !has(tx, "$disconnect"),
    "fromPrisma() takes the transaction that prisma.$transaction passes to its function, not the client",
  )
  return { query: async (text, values) => rowsIn(await tx.$queryRawUnsafe(text, ...values)) }
}

/**
 * Returns the handle of a transaction of Drizzle for `submit`. Throws `TypeError` for the database itself. Drizzle takes values only in
 * objects of its own, so they are sent as literals, quoted by the driver `pg`.
 */
export const fromDrizzle = (tx: DrizzleTransaction): QueryTransaction => {
  requireTransaction(
    has(tx, "execute") && has(tx, "rollback"),
    "fromDrizzle() takes the transaction that db.transaction passes to its function, not db",
  )
  return {
    query: (text, values) =>
      tx.execute(
        text.replaceAll(placeholder, (_, number) => {
          const value = values[Number(number) - 1]
          return value === null || value === undefined ? "NULL" : pg.escapeLiteral(value)
        }),
      ),
  }
}

/** Returns the handle of a transaction of Knex for `submit`. Throws `TypeError` for an instance that is not a transaction. */
export const fromKnex = (trx: KnexTransaction): QueryTransaction => {
  requireTransaction(
    has(trx, "raw") && trx.isTransaction === true,
    "fromKnex() takes the transaction that knex.transaction passes to its function, not knex",
  )
  return {
    query: async (text, values) => {
      // Knex writes `?` instead of `$1`.
      const bindings = Array.from(text.matchAll(placeholder), ([, number]) => values[Number(number) - 1] ?? null)
      return rowsIn(await trx.raw(text.replaceAll(placeholder, "?"), bindings))
    },
  }
}

/** Returns the handle of a transaction of Kysely for `submit`, which also takes it as it is. Throws `TypeError` for the database itself. */
export const fromKysely = (trx: KyselyTransaction): KyselyTransaction => {
  requireTransaction(
    has(trx, "executeQuery") && trx.isTransaction,
    "fromKysely() takes the transaction that db.transaction().execute passes to its function, not db",
  )
  return trx
}
