import type * as Clock from "effect/Clock"
import { sql } from "kysely"
import { type ClockReading, readClocks, StoreTime } from "@kiln/core/rules"
import type { PreparedStatement, RunResult, SqliteDatabase, SqlValue } from "./SqliteDatabase.ts"
import {
  type AnyBatch,
  type AnyStatement,
  type BatchStatement,
  type Parameters,
  type Rest,
  type Statement,
  timeName,
} from "@kiln/sql-store"
import { compiled, type Given, type ListStatement, query, type RowOf, statement, toSqlValue } from "./Statement.ts"
import type { Values } from "./columns.ts"

/** Prepared statements, by their text. */
export interface Statements {
  readonly get: (sql: string) => {
    readonly all: (values: ReadonlyArray<SqlValue>) => ReadonlyArray<unknown>
    readonly get: (values: ReadonlyArray<SqlValue>) => unknown
    readonly run: (values: ReadonlyArray<SqlValue>) => RunResult
  }
}

/** Caches the prepared statements of one connection: preparing one costs ten times as much as running it. */
export class PreparedStatements implements Statements {
  readonly #database: SqliteDatabase
  readonly #bySql = new Map<string, PreparedStatement>()

  constructor(database: SqliteDatabase) {
    this.#database = database
  }

  get(text: string): PreparedStatement {
    const known = this.#bySql.get(text)
    if (known !== undefined) return known
    // The connection of a caller may be set to return integers as bigints.
    const prepared = this.#database.prepare(text).safeIntegers(false)
    this.#bySql.set(text, prepared)
    return prepared
  }
}

/** The database as a verb sees it within its transaction. All calls are synchronous, so no other work can interleave. */
export class Transaction {
  readonly #statements: Statements
  readonly #readTime: () => number
  #now: number | undefined
  #erased = false
  #wrote = false
  #hasStoredTime = false

  /** `readTime` returns the store time of this transaction and is called at most once. */
  constructor(statements: Statements, readTime: () => number) {
    this.#statements = statements
    this.#readTime = readTime
  }

  /** Store time of this transaction, Unix milliseconds. */
  get now(): number {
    return (this.#now ??= this.#readTime())
  }

  all<P extends Parameters, Row>(asked: Statement<P, Row>, parameters: P): ReadonlyArray<Row> {
    return this.#prepared(asked).all(this.#valuesOf(asked, parameters)) as ReadonlyArray<Row>
  }

  get<P extends Parameters, Row>(asked: Statement<P, Row>, parameters: P): Row | undefined {
    return this.#prepared(asked).get(this.#valuesOf(asked, parameters)) as Row | undefined
  }

  /** Returns the number of changed rows. */
  run<P extends Parameters>(asked: Statement<P, unknown>, parameters: P): number {
    return this.#changed(this.#prepared(asked).run(this.#valuesOf(asked, parameters)))
  }

  /** Runs an INSERT of one row. Returns its row id, or `undefined` if a conflict prevented the insertion. */
  insert<P extends Parameters>(asked: Statement<P, unknown>, parameters: P): number | undefined {
    const result = this.#prepared(asked).run(this.#valuesOf(asked, parameters))
    return this.#changed(result) === 0 ? undefined : Number(result.lastInsertRowid)
  }

  /** Runs a statement for each item, in their order. Returns the rows. */
  batch<Item extends Parameters, P extends Parameters, Row>(
    asked: BatchStatement<Item, P, Row>,
    items: ReadonlyArray<Item>,
    ...[parameters]: Rest<P>
  ): ReadonlyArray<Row> {
    const rows = items.flatMap((item) => this.#prepared(asked).all(this.#valuesOf(asked, parameters, item)))
    if (rows.length > 0 && compiled(asked).writes) this.#wrote = true
    return rows as ReadonlyArray<Row>
  }

  /** The same for a statement without rows. Returns the number of changed ones. */
  runBatch<Item extends Parameters, P extends Parameters>(
    asked: BatchStatement<Item, P, unknown>,
    items: ReadonlyArray<Item>,
    ...[parameters]: Rest<P>
  ): number {
    return items.reduce(
      (sum, item) => sum + this.#changed(this.#prepared(asked).run(this.#valuesOf(asked, parameters, item))),
      0,
    )
  }

  /** Runs a statement about a list that writes. Returns the rows. */
  runListReturning<Item, P extends object, Row>(
    asked: ListStatement<Item, P, Row>,
    items: ReadonlyArray<Item>,
    parameters: P,
  ): ReadonlyArray<Row> {
    const rows = asked
      .over(items, parameters)
      .flatMap(({ sql: text, values }) => this.#statements.get(text).all(values))
    if (rows.length > 0) this.#wrote = true
    return rows as ReadonlyArray<Row>
  }

  /** The same for a statement without rows. Returns the number of changed ones. */
  runList<Item, P extends object>(
    asked: ListStatement<Item, P, unknown>,
    items: ReadonlyArray<Item>,
    parameters: P,
  ): number {
    const parts = asked.over(items, parameters)
    return parts.reduce((sum, { sql: text, values }) => sum + this.#changed(this.#statements.get(text).run(values)), 0)
  }

  #prepared(asked: AnyStatement | AnyBatch) {
    return this.#statements.get(compiled(asked).sql)
  }

  #valuesOf(asked: AnyStatement | AnyBatch, given: Parameters = {}, item: Parameters = {}): ReadonlyArray<SqlValue> {
    return compiled(asked).parameters.map(({ isOfItem, name }) =>
      name === timeName ? this.now : toSqlValue((isOfItem ? item : given)[name]),
    )
  }

  #changed({ changes }: RunResult): number {
    if (changes > 0) this.#wrote = true
    return changes
  }

  /** Whether this transaction changed a row. */
  get wrote(): boolean {
    return this.#wrote
  }

  /** Records that a row of this transaction has its time where `storedTime` finds it. */
  noteStoredTime(): void {
    this.#hasStoredTime = true
  }

  get hasStoredTime(): boolean {
    return this.#hasStoredTime
  }

  /** Records that this transaction erases content, which may still be in the write-ahead log. */
  noteErasure(): void {
    this.#erased = true
  }

  get erased(): boolean {
    return this.#erased
  }
}

/**
 * The latest store time of a committed write of any process. The newest job counts, because its creation does not write
 * `store_time`: a commit of a single job writes about six pages, and this saves one.
 */
export const storedTime = statement(() =>
  query
    .selectFrom("store_time")
    .select((of) =>
      sql<number>`max(latest, coalesce(${of.selectFrom("jobs").select("created_at").where("seq", ">", 0).orderBy("seq", "desc").limit(1)}, 0))`.as(
        "latest",
      ),
    ),
)

/** Runs in the transaction that had this time, and only if that wrote something, so it never causes a commit of its own. */
export const storeTime = statement((given: Given<Values<"store_time", "latest">>) =>
  query.updateTable("store_time").set({ latest: given.latest }).where("latest", "<", given.latest),
)

export type StoredTime = RowOf<typeof storedTime>

/** Store time as this process reads it; see `StoreTime`. */
export class StoreClock {
  readonly #time = new StoreTime()

  /** Returns the store time, which is never before the stored time. */
  now(clock: Clock.Clock, stored: StoredTime | undefined): number {
    return this.at(readClocks(clock), stored)
  }

  at(reading: ClockReading, stored: StoredTime | undefined): number {
    return this.#time.now(reading, stored?.latest)
  }

  takeJump(): number | undefined {
    return this.#time.takeJump()
  }
}
