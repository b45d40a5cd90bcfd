import type { PreparedStatement, SqlValue, SqliteDatabase } from "./SqliteDatabase.ts"
import type { Parameters, Statement } from "./Statement.ts"

/** Where a transaction gets its statements from, by their text. */
export interface Statements {
  readonly get: (sql: string) => {
    readonly all: (values: ReadonlyArray<SqlValue>) => ReadonlyArray<unknown>
    readonly get: (values: ReadonlyArray<SqlValue>) => unknown
    readonly run: (values: ReadonlyArray<SqlValue>) => { readonly changes: number }
  }
}

/** Preparing costs ten times what running does. One connection, one cache. */
export class PreparedStatements implements Statements {
  readonly #database: SqliteDatabase
  readonly #bySql = new Map<string, PreparedStatement>()

  constructor(database: SqliteDatabase) {
    this.#database = database
  }

  get(sql: string): PreparedStatement {
    const known = this.#bySql.get(sql)
    if (known !== undefined) return known
    // A caller's connection may be set to hand out integers as bigints.
    const prepared = this.#database.prepare(sql).safeIntegers(false)
    this.#bySql.set(sql, prepared)
    return prepared
  }
}

/** What a verb sees of the database while its one transaction is open. Synchronous: nothing can come in between. */
export class Transaction {
  /** Store time, read after the transaction began: unix milliseconds. */
  readonly now: number
  #erased = false
  #wrote = false
  readonly #statements: Statements

  constructor(statements: Statements, now: number) {
    this.#statements = statements
    this.now = now
  }

  all<P extends Parameters, Row>(statement: Statement<P, Row>, parameters: P): ReadonlyArray<Row> {
    return this.#statements.get(statement.sql).all(statement.bind(parameters)) as ReadonlyArray<Row>
  }

  get<P extends Parameters, Row>(statement: Statement<P, Row>, parameters: P): Row | undefined {
    return this.#statements.get(statement.sql).get(statement.bind(parameters)) as Row | undefined
  }

  /** The number of rows it changed. */
  run<P extends Parameters>(statement: Statement<P, unknown>, parameters: P): number {
    const { changes } = this.#statements.get(statement.sql).run(statement.bind(parameters))
    if (changes > 0) this.#wrote = true
    return changes
  }

  /** Whether this transaction changed a row. */
  get wrote(): boolean {
    return this.#wrote
  }

  /** Says that this transaction erases content, of which the write-ahead log may still hold copies. */
  noteErasure(): void {
    this.#erased = true
  }

  get erased(): boolean {
    return this.#erased
  }
}
