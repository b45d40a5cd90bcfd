import {
  type Answer,
  appendEntry,
  type BatchStatement,
  Known,
  type Parameters,
  type Program,
  type Rest,
  type Sql,
  type Statement,
  type Transactions,
} from "@kiln/sql-store"
import * as Effect from "effect/Effect"
import { Audited, changeMade } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import type { Transaction } from "./Transaction.ts"

/** A transaction as common programs see it. Every answer is there when the call returns. */
class TransactionSql implements Sql {
  readonly #tx: Transaction

  constructor(tx: Transaction) {
    this.#tx = tx
  }

  now(): Answer<number> {
    return new Known(this.#tx.now)
  }

  all<P extends Parameters, Row>(asked: Statement<P, Row>, parameters: P): Answer<ReadonlyArray<Row>> {
    return new Known(this.#tx.all(asked, parameters))
  }

  get<P extends Parameters, Row>(asked: Statement<P, Row>, parameters: P): Answer<Row | undefined> {
    return new Known(this.#tx.get(asked, parameters))
  }

  run<P extends Parameters>(asked: Statement<P, unknown>, parameters: P): Answer<number> {
    return new Known(this.#tx.run(asked, parameters))
  }

  batch<Item extends Parameters, P extends Parameters, Row>(
    asked: BatchStatement<Item, P, Row>,
    items: ReadonlyArray<Item>,
    ...parameters: Rest<P>
  ): Answer<ReadonlyArray<Row>> {
    return new Known(this.#tx.batch(asked, items, ...parameters))
  }

  runBatch<Item extends Parameters, P extends Parameters>(
    asked: BatchStatement<Item, P, unknown>,
    items: ReadonlyArray<Item>,
    ...parameters: Rest<P>
  ): Answer<number> {
    return new Known(this.#tx.runBatch(asked, items, ...parameters))
  }

  lock(): Answer<void> {
    return new Known(undefined)
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

/** A database whose transactions also record the change that they are part of (`Audited`). */
export const auditedDatabase = (db: Database): Pick<Database, "read" | "write"> => ({
  read: (operation, work) => db.read(operation, work),
  write: (operation, work) =>
    Effect.flatMap(Audited, (verb) =>
      verb === undefined
        ? db.write(operation, work)
        : db.write(operation, (tx) => {
            const answer = work(tx)
            const made = changeMade(verb, answer)
            if (made !== undefined) runIn(tx, (common) => appendEntry(common, made))
            return answer
          }),
    ),
})
