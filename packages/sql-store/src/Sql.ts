import type * as Effect from "effect/Effect"
import {
  type AliasedRawBuilder,
  type Compilable,
  type CompiledQuery,
  createQueryId,
  DummyDriver,
  Kysely,
  type OperationNodeSource,
  type QueryCompiler,
  type RawBuilder,
  type RootOperationNode,
  sql,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { Column, Tables, ValueOf } from "./columns.ts"

/** The value of a parameter. Whole numbers are 64 bits wide in the database and safe integers here. */
export type SqlValue = string | number | boolean | null | Uint8Array

export type Parameters = Readonly<Record<string, SqlValue>>

/** A parameter whose value is bound when the statement runs: of the whole statement, or of one item of its list. */
export class Placeholder {
  readonly name: string
  readonly isOfItem: boolean
  constructor(name: string, isOfItem = false) {
    this.name = name
    this.isOfItem = isOfItem
  }
}

/** The name of the parameter that stands for store time. No statement names its own parameters like this. */
export const timeName = "store time"

/** Store time, evaluated once per statement: a call of the database, or the time of the transaction. */
export const storeTime: RawBuilder<number> = sql<number>`${new Placeholder(timeName)}`

/** The name of the parameter that stands for the table of `plenty`. */
export const plentyName = "plenty"

/**
 * One row that the planner of Postgres takes for a thousand. Join it to the table below an ORDER BY with a LIMIT: the planner then reads
 * the index in that order and stops. Without it, a table without statistics looks as if a condition picked a handful of its rows, and the
 * planner reads and sorts all of them first: 150 ms for a page of 100,000 jobs, instead of 12. On SQLite it is a row.
 */
export const plenty: AliasedRawBuilder<{}, "plenty"> = sql<{}>`${new Placeholder(plentyName)}`.as("plenty")

/**
 * Builds typed queries but does not run them: each is compiled once, with the compiler of the database that runs it. What these
 * queries are built with knows no dialect.
 */
export const queries = <T>(): Kysely<T> =>
  new Kysely<T>({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  })

export const query = queries<Tables>()

/** A query that is not compiled yet. */
export type Built<Result> = Compilable<Result> & OperationNodeSource

/** The parameters of a statement, as expressions in its query. */
export type Given<P extends object> = { readonly [Name in keyof P]: RawBuilder<P[Name]> }

declare const row: unique symbol

/** A query with named parameters, for any database. `Result` is the type of its rows. */
export interface Statement<P extends object, Result> {
  readonly built: Built<Result>
  readonly [row]?: (parameters: P) => Result
}

/** The type of the rows that a statement returns. */
export type RowOf<S> =
  S extends Statement<infer _P, infer Result>
    ? Result
    : S extends BatchStatement<infer _Item, infer _P, infer Result>
      ? Result
      : never

export const placeholders = <P extends object>(): Given<P> =>
  new Proxy({} as Given<P>, { get: (_target, name) => sql.val(new Placeholder(String(name))) })

/**
 * Computes a value when it is first asked for. A store has more than a hundred statements: building and compiling all of them takes longer than
 * a program takes to start, and most processes run a few.
 */
export const once = <A extends object>(compute: () => A): (() => A) => {
  let value: A | undefined
  return () => (value ??= compute())
}

/** Declares a query, which is built when it is first used. The type of `build`'s argument names its parameters. */
export const statement = <P extends object, Result>(
  build: (given: Given<P>) => Built<Result>,
): Statement<P, Result> => {
  const built = once(() => build(placeholders<P>()))
  return {
    get built() {
      return built()
    },
  }
}

/** The fields of an item, declared as columns are. */
export type Fields = Readonly<Record<string, Column<unknown>>>

/** An item with these fields. */
export type ItemOf<F extends Fields> = { readonly [Name in keyof F]: ValueOf<F[Name], boolean> & SqlValue }

/** An item of a batch, with its position, counted from 1. */
export type BatchRow<Item> = Item & { readonly ord: number }

/** The batch in its query: a table named `item`, with the fields of an item as columns. */
export type BatchTable<Item> = AliasedRawBuilder<BatchRow<Item>, "item">

/** A query about the items of a batch, for any database. */
export interface BatchStatement<Item extends object, P extends object, Result> {
  readonly fields: Fields
  build(item: BatchTable<Item>, given: Given<P>): Built<Result>
}

/** The parameters of a statement besides its items. They may be left out where it has none. */
export type Rest<P> = {} extends P ? [parameters?: P] : [parameters: P]

export type AnyStatement = Statement<never, unknown>
export type AnyBatch = BatchStatement<never, never, unknown>

/** Declares a query about items with these fields. */
export const batchStatement = <F extends Fields, Result, P extends object = {}>(
  fields: F,
  build: (item: BatchTable<ItemOf<F>>, given: Given<P>) => Built<Result>,
): BatchStatement<ItemOf<F>, P, Result> => ({ fields, build })

/** The fields of an item of a batch, as expressions in its query. */
export const fieldsOf = <Item>(_item: BatchTable<Item>): { readonly [Name in keyof Item]: RawBuilder<Item[Name]> } =>
  new Proxy({} as never, { get: (_target, name) => sql.ref(`item.${String(name)}`) })

/** The values that an INSERT could not insert, for its ON CONFLICT. */
export const excluded = <const C extends ReadonlyArray<string>>(
  ...names: C
): { readonly [Name in C[number]]: RawBuilder<never> } =>
  Object.fromEntries(names.map((name) => [name, sql.ref<never>(`excluded.${name}`)])) as {
    readonly [Name in C[number]]: RawBuilder<never>
  }

/** A parameter as a whole number, where its type cannot be inferred, as in a SELECT list. */
export const whole = (parameter: RawBuilder<number>): RawBuilder<number> => sql<number>`cast(${parameter} as bigint)`

/** The text of a statement in the language of one database, and its parameters in their order there. */
export interface Compiled {
  readonly sql: string
  readonly parameters: ReadonlyArray<Placeholder>
}

export const compile = (
  built: OperationNodeSource,
  compiler: QueryCompiler,
  transform: (node: RootOperationNode) => RootOperationNode = (node) => node,
): Compiled => {
  const node = transform(built.toOperationNode() as RootOperationNode)
  const compiled: CompiledQuery = compiler.compileQuery(node, createQueryId())
  const parameters = compiled.parameters.map((parameter) => {
    if (!(parameter instanceof Placeholder)) throw new TypeError("a statement may only have named parameters")
    return parameter
  })
  return { sql: compiled.sql, parameters }
}

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
