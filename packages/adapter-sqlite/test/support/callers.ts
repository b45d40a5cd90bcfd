import Sqlite from "better-sqlite3"
import { Effect, type Scope } from "effect"
import { Kysely, SqliteDialect, type Transaction } from "kysely"

/** The embedding program's connection. */
export const callerConnection = (path: string): Effect.Effect<Sqlite, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => new Sqlite(path)),
    (opened) => Effect.sync(() => opened.close()),
  )

/** A table of the embedding program. */
export interface CallerTables {
  readonly orders: { readonly id: number }
}

export const callerKysely = (path: string): Effect.Effect<Kysely<CallerTables>, never, Scope.Scope> =>
  Effect.map(callerConnection(path), (database) => new Kysely({ dialect: new SqliteDialect({ database }) }))

export interface Begun<Handle> {
  readonly transaction: Handle
  readonly commit: () => Promise<void>
  readonly rollback: () => Promise<void>
}

export const beginOn = (connection: Sqlite, begin = "BEGIN"): Begun<Sqlite> => {
  connection.exec(begin)
  const end = (sql: string) => () => Promise.resolve(void connection.exec(sql))
  return { transaction: connection, commit: end("COMMIT"), rollback: end("ROLLBACK") }
}

/** Uses the callback, as most programs do. */
export const beginKysely = async (kysely: Kysely<CallerTables>): Promise<Begun<Transaction<CallerTables>>> => {
  const begun = Promise.withResolvers<Transaction<CallerTables>>()
  const toEnd = Promise.withResolvers<void>()
  const rolledBack = new Error("rolled back on purpose")
  const ended = kysely
    .transaction()
    .execute(async (transaction) => {
      begun.resolve(transaction)
      await toEnd.promise
    })
    .catch((error: unknown) => {
      if (error !== rolledBack) throw error
    })
  const end = (settle: () => void) => () => {
    settle()
    return ended
  }
  return {
    transaction: await Promise.race([begun.promise, ended.then(() => Promise.reject(new Error("never begun")))]),
    commit: end(() => toEnd.resolve()),
    rollback: end(() => toEnd.reject(rolledBack)),
  }
}
