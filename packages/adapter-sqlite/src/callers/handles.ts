import { realpathSync } from "node:fs"
import { CompiledQuery, type Transaction as AnyTransaction } from "kysely"
import type { Database } from "../Database.ts"
import { type RunResult, sqliteCode, type SqliteDatabase, type SqlValue } from "../SqliteDatabase.ts"
import type { SqlText } from "../Statement.ts"
import { PreparedStatements, type Statements } from "../Transaction.ts"

export interface Answer extends RunResult {
  readonly rows: ReadonlyArray<unknown>
}

/** Thrown by the first statement without an answer. */
class Unanswered extends Error {
  readonly text: SqlText
  constructor(text: SqlText) {
    super("not answered yet")
    this.text = text
  }
}

class KnownAnswers implements Statements {
  readonly #answers: ReadonlyArray<Answer>
  #next = 0

  constructor(answers: ReadonlyArray<Answer>) {
    this.#answers = answers
  }

  get(sql: string) {
    const answer = (values: ReadonlyArray<SqlValue>): Answer => {
      const known = this.#answers[this.#next]
      if (known === undefined) throw new Unanswered({ sql, values })
      this.#next += 1
      return known
    }
    return {
      all: (values: ReadonlyArray<SqlValue>) => answer(values).rows,
      get: (values: ReadonlyArray<SqlValue>) => answer(values).rows[0],
      run: answer,
    }
  }
}

/**
 * Runs a synchronous step on a connection that answers with promises: for every new answer, the step runs again from the start with
 * all answers so far. So both kinds of connections share one implementation. The step must be deterministic; with a dozen
 * statements, running it again costs less than one of them.
 */
export const runWithAnswers = async <A>(
  step: (statements: Statements) => A,
  ask: (text: SqlText) => Promise<Answer>,
): Promise<A> => {
  const answers: Array<Answer> = []
  while (true) {
    try {
      return step(new KnownAnswers(answers))
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error
      answers.push(await ask(error.text))
    }
  }
}

/** A transaction of Kysely of any version: the members that are checked before it is used. */
export interface KyselyTransaction {
  readonly isTransaction: true
  executeQuery(query: never): Promise<unknown>
  withoutPlugins(): unknown
}

export type KyselyHandle = AnyTransaction<{ readonly kiln: { readonly kiln: number } }>

export const isKyselyTransaction = (handle: unknown): handle is KyselyHandle =>
  typeof handle === "object" &&
  handle !== null &&
  Reflect.get(handle, "isTransaction") === true &&
  ["executeQuery", "withoutPlugins", "selectFrom"].every((name) => typeof Reflect.get(handle, name) === "function")

/** A query that only SQLite's dialects write. Nothing is sent, because a rejected query would end another database's transaction. */
const probe = `select "kiln" from "kiln" where "kiln" = ?`
const isSqliteDialect = (transaction: KyselyHandle): boolean =>
  transaction.selectFrom("kiln").select("kiln").where("kiln", "=", 1).compile().sql === probe

/** Runs statements in a caller's transaction, without its plugins, which might rename columns. */
export class KyselyConnection {
  readonly #transaction: KyselyHandle

  private constructor(transaction: KyselyHandle) {
    this.#transaction = transaction
  }

  /** Rejects with `TypeError` unless the transaction is open and on the store's own file. */
  static async open(transaction: KyselyHandle, file: StoreFile): Promise<KyselyConnection> {
    const plain = transaction.withoutPlugins()
    if (!isSqliteDialect(plain)) throw new TypeError("the Kysely transaction must use a SQLite dialect")
    const connection = new KyselyConnection(plain)
    file.expectSame(await connection.#databases())
    return connection
  }

  async ask({ sql, values }: SqlText): Promise<Answer> {
    const query = CompiledQuery.raw(sql, [...values])
    const { insertId, numAffectedRows, rows } = await this.#transaction.executeQuery(query)
    return { rows, changes: Number(numAffectedRows ?? 0), lastInsertRowid: insertId ?? 0 }
  }

  async #databases(): Promise<ReadonlyArray<unknown>> {
    try {
      return (await this.ask({ sql: "PRAGMA database_list", values: [] })).rows
    } catch (error) {
      if (sqliteCode(error) !== undefined) throw error
      throw new TypeError("the transaction has ended: it was committed or rolled back", { cause: error })
    }
  }
}

/** Whether the transaction reports that it has ended. */
export const isOver = (transaction: KyselyHandle): boolean =>
  ["isCommitted", "isRolledBack"].some((name) => Reflect.get(transaction, name) === true)

/** A connection of better-sqlite3 of any version: the members that are checked before it is used. */
export interface BetterSqliteDatabase {
  readonly open: boolean
  readonly inTransaction: boolean
  prepare(source: string): object
  pragma(source: string): unknown
}

export const isBetterSqlite = (handle: unknown): handle is SqliteDatabase =>
  typeof handle === "object" &&
  handle !== null &&
  ["prepare", "pragma"].every((name) => typeof Reflect.get(handle, name) === "function") &&
  typeof Reflect.get(handle, "inTransaction") === "boolean"

/** Statements that were prepared on the connections of callers. */
const known = new WeakMap<SqliteDatabase, PreparedStatements>()

/** Returns the statements of a caller's connection. Throws `TypeError` unless it is in a transaction on the store's own file. */
export const statementsOf = (connection: SqliteDatabase, file: StoreFile): PreparedStatements => {
  if (!connection.inTransaction) throw new TypeError("the database handle is not in a transaction")
  file.expectSame(connection.pragma("database_list"))
  const statements = known.get(connection) ?? new PreparedStatements(connection)
  known.set(connection, statements)
  return statements
}

/** The file of a connection, from its `PRAGMA database_list`; empty for a database in memory. */
const mainFileOf = (databases: unknown): string => {
  const rows = databases as ReadonlyArray<{ readonly name: string; readonly file: string | null }>
  return rows.find(({ name }) => name === "main")?.file ?? ""
}

const realPathOf = (file: string): string | undefined => {
  try {
    return file === "" ? undefined : realpathSync(file)
  } catch {
    return undefined
  }
}

/** The store's own file, which is compared with others by its real path. */
export class StoreFile {
  readonly #file: string
  readonly #same = new Set<string>()

  constructor({ connection }: Pick<Database, "connection">) {
    this.#file = mainFileOf(connection.pragma("database_list"))
    this.#same.add(this.#file)
  }

  /** Takes the result of `PRAGMA database_list` on another connection. Throws `TypeError` unless it has the same file open. */
  expectSame(databases: unknown): void {
    const file = mainFileOf(databases)
    if (this.#same.has(file)) return
    const path = realPathOf(file)
    if (path === undefined || path !== realPathOf(this.#file))
      throw new TypeError("the transaction must be on the database file of the store")
    this.#same.add(file)
  }
}
