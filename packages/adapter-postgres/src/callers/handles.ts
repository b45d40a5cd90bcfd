import pg from "pg"
import type { KyselyTransaction, QueryTransaction } from "./CallerConnection.ts"

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
