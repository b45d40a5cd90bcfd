import type * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { BatchStatement, Parameters, Rest, Statement } from "./Statement.ts"

/**
 * The answer to a statement: `yield*` gives its value. SQLite has answered when the call returns. Postgres has sent the statement
 * by then, so statements that do not need each other's answers share a round trip: send both, then `yield*` both.
 */
export interface Answer<A> {
  [Symbol.iterator](): Iterator<Promise<unknown>, A, unknown>
}

/** An answer that is there already. */
export class Known<A> implements Answer<A>, Iterator<never, A> {
  readonly #value: A
  constructor(value: A) {
    this.#value = value
  }
  [Symbol.iterator](): this {
    return this
  }
  next(): IteratorReturnResult<A> {
    return { done: true, value: this.#value }
  }
}

/** Work in one transaction: what it yields are answers under way. It does not catch errors of the database. */
export type Program<A> = Generator<Promise<unknown>, A, unknown>

/** Rounds a caller's age up to whole milliseconds, at most the largest safe integer. */
export const wholeAge = (ms: number): number => Math.min(Math.ceil(ms), Number.MAX_SAFE_INTEGER - 1)

/** A database as a program sees it. */
export interface Sql {
  /** Store time, Unix milliseconds: that of the transaction, or the present one where there is no transaction. */
  now(): Answer<number>
  all<P extends Parameters, Row>(statement: Statement<P, Row>, parameters: P): Answer<ReadonlyArray<Row>>
  get<P extends Parameters, Row>(statement: Statement<P, Row>, parameters: P): Answer<Row | undefined>
  /** Gives the number of changed rows. */
  run<P extends Parameters>(statement: Statement<P, unknown>, parameters: P): Answer<number>
  /**
   * Gives the rows of a statement about several items: on Postgres of one statement about all of them, on SQLite of one about each,
   * in their order.
   */
  batch<Item extends Parameters, P extends Parameters, Row>(
    statement: BatchStatement<Item, P, Row>,
    items: ReadonlyArray<Item>,
    ...parameters: Rest<P>
  ): Answer<ReadonlyArray<Row>>
  /** Gives the number of changed rows. */
  runBatch<Item extends Parameters, P extends Parameters>(
    statement: BatchStatement<Item, P, unknown>,
    items: ReadonlyArray<Item>,
    ...parameters: Rest<P>
  ): Answer<number>
  /**
   * Lets one transaction at a time go on from here, until it ends. SQLite does nothing, because a transaction that writes
   * holds the lock of the whole file from its beginning.
   */
  lock(name: string): Answer<void>
}

type Run = <A>(operation: string, program: (tx: Sql) => Program<A>) => Effect.Effect<A, StoreUnavailable>

/** The transactions of a database. */
export interface Transactions {
  /** Runs a program that only reads. On Postgres each statement has its own snapshot. */
  readonly read: Run
  /** Runs a program in a transaction. It may run more than once. If it throws, nothing is written. */
  readonly write: Run
}

/** Gives every answer, in order. Made of statements that were sent before, it costs one round trip. */
export function* each<A>(answers: ReadonlyArray<Answer<A>>): Program<ReadonlyArray<A>> {
  const values: Array<A> = []
  for (const answer of answers) values.push(yield* answer)
  return values
}
