import {
  type Answer,
  Known,
  type Parameters as CommonParameters,
  type Program,
  type Sql,
  type SqlValue as CommonValue,
  type Statement as CommonStatement,
  timeName,
  type Transactions,
} from "@kiln/sql-store"
import type { Database } from "./Database.ts"
import type { SqlValue } from "./SqliteDatabase.ts"
import { compile, type Statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

interface Own {
  readonly statement: Statement<never, unknown>
  readonly needsTime: boolean
}

/** SQLite has no booleans. */
const stored = (value: CommonValue | undefined): SqlValue =>
  typeof value === "boolean" ? Number(value) : (value ?? null)

const compiled = new WeakMap<CommonStatement<never, unknown>, Own>()

const ownOf = (statement: CommonStatement<never, unknown>): Own => {
  const known = compiled.get(statement)
  if (known !== undefined) return known
  const { parameters, sql } = compile(statement.built)
  const names = parameters.map(({ name }) => name)
  const bind = (values: CommonParameters) => names.map((name) => stored(values[name]))
  const own = { statement: { sql, bind }, needsTime: names.includes(timeName) }
  compiled.set(statement, own)
  return own
}

/** A transaction as common programs see it. Every answer is there when the call returns. */
class TransactionSql implements Sql {
  readonly #tx: Transaction

  constructor(tx: Transaction) {
    this.#tx = tx
  }

  now(): Answer<number> {
    return new Known(this.#tx.now)
  }

  all<P extends CommonParameters, Row>(statement: CommonStatement<P, Row>, parameters: P): Answer<ReadonlyArray<Row>> {
    const own = ownOf(statement)
    return new Known(this.#tx.all(own.statement, this.#given(own, parameters)) as ReadonlyArray<Row>)
  }

  get<P extends CommonParameters, Row>(statement: CommonStatement<P, Row>, parameters: P): Answer<Row | undefined> {
    const own = ownOf(statement)
    return new Known(this.#tx.get(own.statement, this.#given(own, parameters)) as Row | undefined)
  }

  run<P extends CommonParameters>(statement: CommonStatement<P, unknown>, parameters: P): Answer<number> {
    const own = ownOf(statement)
    return new Known(this.#tx.run(own.statement, this.#given(own, parameters)))
  }

  lock(): Answer<void> {
    return new Known(undefined)
  }

  #given({ needsTime }: Own, parameters: CommonParameters): never {
    return (needsTime ? { ...parameters, [timeName]: this.#tx.now } : parameters) as never
  }
}

/** Runs a program at once, within a transaction. */
export const runIn = <A>(tx: Transaction, program: (sql: Sql) => Program<A>): A => {
  const { done, value } = program(new TransactionSql(tx)).next()
  if (done !== true) throw new TypeError("a program in SQLite has nothing to wait for")
  return value
}

/** Runs common programs in the transactions of this database. */
export const transactionsOf = (db: Pick<Database, "read" | "write">): Transactions => ({
  read: (operation, program) => db.read(operation, (tx) => runIn(tx, program)),
  write: (operation, program) => db.write(operation, (tx) => runIn(tx, program)),
})
