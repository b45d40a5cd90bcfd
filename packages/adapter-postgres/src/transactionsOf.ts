import { sql } from "kysely"
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
import type { Database } from "./connection/Database.ts"
import { type Session, Transaction } from "./connection/Session.ts"
import { type Given, query, statement, storeTime } from "./Statement.ts"

const timeNow = statement(() => query.selectNoFrom(sql<number>`${storeTime}`.as("now")))

/** Reads store time, outside of a transaction of kiln's. */
export const readTime = async (session: Session): Promise<number> => (await session.get(timeNow, {}))?.now ?? 0

/** Ends with the transaction. */
const takeLock = statement((given: Given<{ name: string }>) =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".' || ${given.name}::text, 0))`.as("lock"),
  ),
)

/** The answer to a statement that was sent. */
const sent = <A>(answer: Promise<A>): Answer<A> => {
  // A program that fails does not wait for the answers to its other statements.
  answer.catch(() => undefined)
  return {
    *[Symbol.iterator]() {
      return (yield answer) as A
    },
  }
}

/** A session as common programs see it. Statements are sent at once. */
class SessionSql implements Sql {
  readonly #session: Session

  constructor(session: Session) {
    this.#session = session
  }

  now(): Answer<number> {
    if (this.#session instanceof Transaction) return new Known(this.#session.now)
    return sent(readTime(this.#session))
  }

  all<P extends Parameters, Row>(asked: Statement<P, Row>, parameters: P): Answer<ReadonlyArray<Row>> {
    return sent(this.#session.all(asked, parameters))
  }

  get<P extends Parameters, Row>(asked: Statement<P, Row>, parameters: P): Answer<Row | undefined> {
    return sent(this.#session.get(asked, parameters))
  }

  run<P extends Parameters>(asked: Statement<P, unknown>, parameters: P): Answer<number> {
    return sent(this.#session.run(asked, parameters))
  }

  batch<Item extends Parameters, P extends Parameters, Row>(
    asked: BatchStatement<Item, P, Row>,
    items: ReadonlyArray<Item>,
    ...parameters: Rest<P>
  ): Answer<ReadonlyArray<Row>> {
    return sent(this.#session.batch(asked, items, ...parameters))
  }

  runBatch<Item extends Parameters, P extends Parameters>(
    asked: BatchStatement<Item, P, unknown>,
    items: ReadonlyArray<Item>,
    ...parameters: Rest<P>
  ): Answer<number> {
    return sent(this.#session.runBatch(asked, items, ...parameters))
  }

  lock(name: string): Answer<void> {
    return sent<void>(this.#session.run(takeLock, { name }).then(() => undefined))
  }
}

export const runOn = async <A>(session: Session, program: (sql: Sql) => Program<A>): Promise<A> => {
  const running = program(new SessionSql(session))
  let step = running.next()
  while (step.done !== true) step = running.next(await step.value)
  return step.value
}

/** Runs common programs in the transactions of this database. */
export const transactionsOf = (db: Pick<Database, "read" | "write">): Transactions => ({
  read: (operation, program) => db.read(operation, (session) => runOn(session, program)),
  write: (operation, program) => db.write(operation, (tx) => runOn(tx, program)),
})

/** Records the change that a transaction makes (`Audited`), and returns the verb's answer. */
export type RecordChange<A> = (tx: Transaction, answer: A) => Promise<A>

/** Runs a verb whose transaction passes its answer through `record`. */
export const recorded = <A, E>(run: (record: RecordChange<A>) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.flatMap(Audited, (verb) =>
    run(async (tx, answer) => {
      const made = changeMade(verb, answer)
      if (made !== undefined) await runOn(tx, (common) => appendEntry(common, made))
      return answer
    }),
  )

/** A database whose transactions also record the change that they are part of. */
export const auditedDatabase = (db: Database): Pick<Database, "read" | "write"> => ({
  read: (operation, work) => db.read(operation, work),
  write: (operation, work) => recorded((record) => db.write(operation, async (tx) => record(tx, await work(tx)))),
})
